"""Order pages: the list, one order, its cancellation, and the return of a product in three steps."""

from typing import Any

from ..choices import REFUNDS, RETURN_REASONS
from ..data import Row
from ..html import button, choice, facts, form, join, link, press, select, table, tag
from ..web import Page, Redirect, Refused, Reply, Request, confirm, paged
from .base import line_name, money, site

LINES = """
SELECT order_lines.*, products.name FROM order_lines JOIN products ON products.id = product_id
WHERE order_id = ? ORDER BY products.name, color, size
"""


@site.get("/orders")
def orders(request: Request) -> Page:
    """Display the user's orders, newest first."""
    user = request.member()
    count = request.db.value("SELECT count(*) FROM orders WHERE user_id = ?", user["id"])
    skip, pages = paged(request, count)
    rows = request.db.rows(
        "SELECT * FROM orders WHERE user_id = ? ORDER BY date DESC, id DESC LIMIT 10 OFFSET ?", user["id"], skip
    )
    cells = [
        (link(f"Order {row['id']}", f"/orders/{row['id']}"), row["date"], row["status"], money(row["total"]))
        for row in rows
    ]
    return Page("Orders", join(table("Orders", ("Order", "Date", "Status", "Total"), cells), pages))


def _own(request: Request, order_id: int) -> Row:
    return request.one("SELECT * FROM orders WHERE id = ? AND user_id = ?", order_id, request.member()["id"])


@site.get("/orders/{}")
def order(request: Request, order_id: int) -> Page:
    """Display an order."""
    row = _own(request, order_id)
    lines = request.db.rows(LINES, order_id)
    cells = [
        (link(line_name(line), f"/product/{line['product_id']}"), line["quantity"], money(line["price"]))
        for line in lines
    ]
    returned = request.db.rows(
        "SELECT returns.*, name FROM returns JOIN products ON products.id = product_id WHERE order_id = ?"
        " ORDER BY returns.id",
        order_id,
    )
    summary = facts(
        [
            ("Date", row["date"]),
            ("Status", row["status"]),
            ("Address", f"{row['recipient']}, {row['street']}, {row['postcode']} {row['city']}"),
            ("Delivery", row["delivery"]),
            ("Coupon", row["coupon"] or "none"),
            ("Gift note", row["note"] or "none"),
            ("Total", money(row["total"])),
        ]
    )
    body = join(
        summary,
        table("Products", ("Product", "Quantity", "Price each"), cells),
        table("Returns", ("Product", "Reason"), [(each["name"], each["reason"]) for each in returned])
        if returned
        else None,
        tag("p", link("Cancel this order", f"/orders/{order_id}/cancel")) if row["status"] == "placed" else None,
        tag("p", link("Return a product", f"/orders/{order_id}/return")) if row["status"] == "delivered" else None,
    )
    return Page(f"Order {order_id}", body)


@site.get("/orders/{}/cancel")
def ask_cancel(request: Request, order_id: int) -> Page:
    """Display the confirmation page."""
    _own(request, order_id)
    return confirm(f"Cancel order {order_id}?", "Cancel order", request.path, f"/orders/{order_id}")


@site.post("/orders/{}/cancel")
def cancel(request: Request, order_id: int) -> Reply:
    """Cancel an order that has not shipped, and restore the stock."""
    if _own(request, order_id)["status"] != "placed":
        raise Refused("Only an order that has not shipped can be cancelled.")
    for line in request.db.rows(LINES, order_id):
        request.db.run("UPDATE products SET stock = stock + ? WHERE id = ?", line["quantity"], line["product_id"])
    request.db.run("UPDATE orders SET status = 'cancelled' WHERE id = ?", order_id)
    return Redirect(f"/orders/{order_id}", f"Order {order_id} has been cancelled.")


def _returnable(request: Request, order_id: int) -> list[Row]:
    if _own(request, order_id)["status"] != "delivered":
        raise Refused("Only a delivered order can be returned.")
    return request.db.rows(
        "SELECT DISTINCT product_id, name FROM order_lines JOIN products ON products.id = product_id"
        " WHERE order_id = ? AND product_id NOT IN (SELECT product_id FROM returns WHERE order_id = ?) ORDER BY name",
        order_id,
        order_id,
    )


def _draft(request: Request, order_id: int) -> dict[str, Any]:
    return request.session.drafts.setdefault(f"return {order_id}", {})


@site.get("/orders/{}/return")
def choose_product(request: Request, order_id: int) -> Page:
    """Display step 1."""
    return _product_page(request, order_id)


def _product_page(request: Request, order_id: int, errors: tuple[str, ...] = ()) -> Page:
    rows = _returnable(request, order_id)
    if not rows:
        return Page("Return, step 1 of 3: product", tag("p", "Every product of this order has been returned."))
    options = [(row["product_id"], row["name"]) for row in rows]
    chosen = choice("Product", "product", options, _draft(request, order_id).get("product", ""))
    return Page(
        "Return, step 1 of 3: product", form(f"/orders/{order_id}/return", chosen, button("Continue to reason")), errors
    )


@site.post("/orders/{}/return")
def keep_product(request: Request, order_id: int) -> Reply:
    """Store the product in the draft."""
    product = request.form.number("product")
    if product not in [row["product_id"] for row in _returnable(request, order_id)]:
        return _product_page(request, order_id, ("Choose a product.",))
    _draft(request, order_id)["product"] = product
    return Redirect(f"/orders/{order_id}/return/reason")


@site.get("/orders/{}/return/reason")
def choose_reason(request: Request, order_id: int) -> Reply:
    """Display step 2."""
    return _reason_page(request, order_id)


def _reason_page(request: Request, order_id: int, errors: tuple[str, ...] = ()) -> Reply:
    draft = _draft(request, order_id)
    if "product" not in draft:
        return Redirect(f"/orders/{order_id}/return")
    body = form(
        f"/orders/{order_id}/return/reason",
        select(
            "Reason", "reason", [("", "Choose"), *((each, each) for each in RETURN_REASONS)], draft.get("reason", "")
        ),
        choice("Refund", "refund", REFUNDS.items(), draft.get("refund", "")),
        button("Continue to confirmation"),
    )
    return Page("Return, step 2 of 3: reason", body, errors)


@site.post("/orders/{}/return/reason")
def keep_reason(request: Request, order_id: int) -> Reply:
    """Store the reason and the refund in the draft."""
    reason, refund = request.form.text("reason"), request.form.text("refund")
    if reason not in RETURN_REASONS or refund not in REFUNDS:
        return _reason_page(request, order_id, ("Choose a reason and a refund.",))
    _draft(request, order_id).update(reason=reason, refund=refund)
    return Redirect(f"/orders/{order_id}/return/confirm")


@site.get("/orders/{}/return/confirm")
def confirm_return(request: Request, order_id: int) -> Reply:
    """Display step 3."""
    draft = _draft(request, order_id)
    if "reason" not in draft:
        return Redirect(f"/orders/{order_id}/return/reason")
    name = request.db.value("SELECT name FROM products WHERE id = ?", draft["product"])
    summary = facts([("Product", name), ("Reason", draft["reason"]), ("Refund", REFUNDS[draft["refund"]])])
    return Page("Return, step 3 of 3: confirm", join(summary, press("Submit return", request.path)))


@site.post("/orders/{}/return/confirm")
def send_return(request: Request, order_id: int) -> Reply:
    """Create the return."""
    draft = request.session.drafts.pop(f"return {order_id}", {})
    if "reason" not in draft or draft["product"] not in [row["product_id"] for row in _returnable(request, order_id)]:
        return Redirect(f"/orders/{order_id}/return")
    request.db.run(
        "INSERT INTO returns (order_id, product_id, reason, refund, date) VALUES (?, ?, ?, ?, ?)",
        *(order_id, draft["product"], draft["reason"], draft["refund"], request.today),
    )
    return Redirect(f"/orders/{order_id}", "Your return has been submitted.")
