"""Order pages: the list, one order, its cancellation, and the return of a product in three steps."""

from ..changes import cancel_order
from ..choices import REFUNDS, RETURN_REASONS
from ..data import Row
from ..sites import SHOP as site
from ..web import Page, Redirect, Refused, Reply, Request, confirm, listed


@site.get("/orders")
def orders(request: Request) -> Page:
    """Display the user's orders, newest first."""
    sql = "SELECT * FROM orders WHERE user_id = ? ORDER BY date DESC, id DESC"
    rows, pages = listed(request, sql, request.member()["id"])
    return Page("Orders", "orders.orders", orders=rows, pages=pages)


def _own(request: Request, order_id: int) -> Row:
    return request.find("orders", id=order_id, user_id=request.member()["id"])


@site.get("/orders/{}")
def order(request: Request, order_id: int) -> Page:
    """Display an order."""
    row = _own(request, order_id)
    lines = request.db.rows(
        "SELECT order_lines.*, products.name FROM order_lines JOIN products ON products.id = product_id"
        " WHERE order_id = ? ORDER BY products.name, color, size",
        order_id,
    )
    returned = request.db.rows(
        "SELECT returns.*, name FROM returns JOIN products ON products.id = product_id WHERE order_id = ?"
        " ORDER BY returns.id",
        order_id,
    )
    return Page(f"Order {order_id}", "orders.order", order=row, lines=lines, returned=returned)


@site.form("/orders/{}/cancel")
def cancel(request: Request, order_id: int) -> Reply:
    """Cancel an order that has not shipped, after a confirmation."""
    row = _own(request, order_id)
    if not request.posted:
        return confirm(f"Cancel order {order_id}?", "Cancel order", request.path, f"/orders/{order_id}")
    if row["status"] != "placed":
        raise Refused("Only an order that has not shipped can be cancelled.")
    cancel_order(request.db, order_id)
    return Redirect(f"/orders/{order_id}", f"Order {order_id} has been cancelled.")


def _returnable(request: Request, order_id: int) -> list[Row]:
    if _own(request, order_id)["status"] != "delivered":
        raise Refused("Only a delivered order can be returned.")
    return request.db.rows(
        "SELECT DISTINCT product_id, name FROM order_lines JOIN products ON products.id = product_id"
        " WHERE order_id = ? AND product_id NOT IN (SELECT product_id FROM returns WHERE order_id = ?) ORDER BY name",
        *(order_id, order_id),
    )


@site.form("/orders/{}/return")
def choose_product(request: Request, order_id: int) -> Reply:
    """Step 1: choose a product."""
    rows, draft, errors = _returnable(request, order_id), request.draft(f"return {order_id}"), []
    if request.posted:
        product = request.form.number("product")
        if product in [row["product_id"] for row in rows]:
            draft["product"] = product
            return Redirect(f"/orders/{order_id}/return/reason")
        errors = ["Choose a product."] if rows else []
    return Page("Return, step 1 of 3: product", "orders.product", errors, path=request.path, products=rows, draft=draft)


@site.form("/orders/{}/return/reason")
def choose_reason(request: Request, order_id: int) -> Reply:
    """Step 2: choose a reason and a refund."""
    draft, errors = request.draft(f"return {order_id}"), []
    if request.posted:
        reason, refund = request.form.text("reason"), request.form.text("refund")
        if reason in RETURN_REASONS and refund in REFUNDS:
            draft.update(reason=reason, refund=refund)
            return Redirect(f"/orders/{order_id}/return/confirm")
        errors = ["Choose a reason and a refund."]
    if "product" not in draft:
        return Redirect(f"/orders/{order_id}/return")
    choices = {"reasons": [(each, each) for each in RETURN_REASONS], "refunds": list(REFUNDS.items())}
    return Page("Return, step 2 of 3: reason", "orders.reason", errors, path=request.path, draft=draft, **choices)


@site.form("/orders/{}/return/confirm")
def confirm_return(request: Request, order_id: int) -> Reply:
    """Step 3: create the return."""
    draft = request.draft(f"return {order_id}")
    if not request.posted:
        if "reason" not in draft:
            return Redirect(f"/orders/{order_id}/return/reason")
        name = request.db.value("SELECT name FROM products WHERE id = ?", draft["product"])
        facts = {"Product": name, "Reason": draft["reason"], "Refund": REFUNDS[draft["refund"]]}
        return Page(
            "Return, step 3 of 3: confirm", "common.review", path=request.path, facts=facts, yes="Submit return"
        )
    del request.session.drafts[f"return {order_id}"]
    if "reason" not in draft or draft["product"] not in [row["product_id"] for row in _returnable(request, order_id)]:
        return Redirect(f"/orders/{order_id}/return")
    values = {"product_id": draft["product"], "reason": draft["reason"], "refund": draft["refund"]}
    request.db.add("returns", order_id=order_id, **values, date=request.today)
    return Redirect(f"/orders/{order_id}", "Your return has been submitted.")
