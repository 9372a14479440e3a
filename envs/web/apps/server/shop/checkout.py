"""The checkout in three steps: address, delivery, review. The choices are a draft of the session until the order."""

from typing import Any

from ..choices import DELIVERY
from ..html import button, choice, facts, field, form, join, link, press, table, tag
from ..web import Page, Redirect, Reply, Request
from .base import line_name, money, site
from .cart import bill


def _draft(request: Request) -> dict[str, Any]:
    return request.session.drafts.setdefault("checkout", {})


@site.get("/checkout")
def begin(request: Request) -> Reply:
    """Start with an empty draft."""
    request.member()
    request.session.drafts["checkout"] = {}
    return Redirect("/checkout/address")


@site.get("/checkout/address")
def address(request: Request) -> Reply:
    """Display step 1."""
    return _address_page(request)


def _address_page(request: Request, errors: tuple[str, ...] = ()) -> Reply:
    user = request.member()
    if not bill(request.db, user["id"]).lines:
        return Redirect("/cart", "Your cart is empty.")
    rows = request.db.rows("SELECT * FROM addresses WHERE user_id = ? ORDER BY id", user["id"])
    options = [(row["id"], f"{row['label']}: {row['recipient']}, {row['street']}, {row['city']}") for row in rows]
    chosen = choice("Deliver to", "address", options, _draft(request).get("address", ""))
    body = join(
        form("/checkout/address", chosen, button("Continue to delivery")),
        tag("p", link("Add an address", "/addresses/new")),
    )
    return Page("Checkout, step 1 of 3: address", body, errors)


@site.post("/checkout/address")
def choose_address(request: Request) -> Reply:
    """Store the address in the draft."""
    user, number = request.member(), request.form.number("address")
    if request.db.row("SELECT 1 FROM addresses WHERE id = ? AND user_id = ?", number, user["id"]) is None:
        return _address_page(request, ("Choose an address.",))
    _draft(request)["address"] = number
    return Redirect("/checkout/delivery")


@site.get("/checkout/delivery")
def delivery(request: Request) -> Reply:
    """Display step 2."""
    return _delivery_page(request)


def _delivery_page(request: Request, errors: tuple[str, ...] = ()) -> Reply:
    request.member()
    draft = _draft(request)
    if "address" not in draft:
        return Redirect("/checkout/address")
    options = [(key, f"{name}, {money(price)}") for key, (name, price) in DELIVERY.items()]
    body = form(
        "/checkout/delivery",
        choice("Delivery method", "delivery", options, draft.get("delivery", "")),
        field("Gift note (optional)", "note", draft.get("note", "")),
        tag("p", button("Continue to review")),
    )
    return Page(
        "Checkout, step 2 of 3: delivery", join(body, tag("p", link("Back to address", "/checkout/address"))), errors
    )


@site.post("/checkout/delivery")
def choose_delivery(request: Request) -> Reply:
    """Store the delivery in the draft."""
    chosen = request.form.text("delivery")
    if chosen not in DELIVERY:
        return _delivery_page(request, ("Choose a delivery method.",))
    _draft(request).update(delivery=chosen, note=request.form.text("note"))
    return Redirect("/checkout/review")


@site.get("/checkout/review")
def review(request: Request) -> Reply:
    """Display step 3."""
    user, draft = request.member(), _draft(request)
    if "delivery" not in draft:
        return Redirect("/checkout/delivery")
    due = bill(request.db, user["id"])
    to = request.one("SELECT * FROM addresses WHERE id = ? AND user_id = ?", draft["address"], user["id"])
    name, price = DELIVERY[draft["delivery"]]
    rows = [(line_name(line), line["quantity"], money(line["price"] * line["quantity"])) for line in due.lines]
    summary = facts(
        [
            ("Address", f"{to['recipient']}, {to['street']}, {to['postcode']} {to['city']}"),
            ("Delivery method", f"{name}, {money(price)}"),
            ("Gift note", draft["note"] or "none"),
            ("Coupon", f"{due.coupon}, -{money(due.discount)}" if due.coupon else "none"),
            ("Total", money(due.subtotal - due.discount + price)),
        ]
    )
    back = tag("p", link("Back to delivery", "/checkout/delivery"))
    body = join(
        table("Order", ("Product", "Quantity", "Price"), rows), summary, press("Place order", "/checkout/place"), back
    )
    return Page("Checkout, step 3 of 3: review", body)


@site.post("/checkout/place")
def place(request: Request) -> Reply:
    """Create the order, reduce the stock, and empty the cart."""
    user, draft, db = request.member(), _draft(request), request.db
    due = bill(db, user["id"])
    if "delivery" not in draft or not due.lines:
        return Redirect("/cart", "There is nothing to order yet.")
    for line in due.lines:
        held = sum(other["quantity"] for other in due.lines if other["product_id"] == line["product_id"])
        if held > line["stock"]:
            return Redirect("/cart", f"Only {line['stock']} of {line['name']} in stock.")
    to = request.one("SELECT * FROM addresses WHERE id = ? AND user_id = ?", draft["address"], user["id"])
    price = DELIVERY[draft["delivery"]][1]
    order_id = db.run(
        "INSERT INTO orders (user_id, date, status, recipient, street, city, postcode, delivery, coupon, note, total)"
        " VALUES (?, ?, 'placed', ?, ?, ?, ?, ?, ?, ?, ?)",
        *(user["id"], request.today, to["recipient"], to["street"], to["city"], to["postcode"]),
        *(draft["delivery"], due.coupon, draft["note"], due.subtotal - due.discount + price),
    )
    for line in due.lines:
        key = (line["product_id"], line["color"], line["size"], line["quantity"], line["price"])
        db.run("INSERT INTO order_lines VALUES (?, ?, ?, ?, ?, ?)", order_id, *key)
        db.run("UPDATE products SET stock = stock - ? WHERE id = ?", line["quantity"], line["product_id"])
    db.run("DELETE FROM cart_lines WHERE user_id = ?", user["id"])
    db.run("DELETE FROM cart_coupons WHERE user_id = ?", user["id"])
    request.session.drafts.pop("checkout", None)
    return Redirect(f"/orders/{order_id}", f"Order {order_id} has been placed.")
