"""The cart, with lines in quantities and one coupon, and the checkout in three steps: address, delivery, review.

The choices of the checkout are a draft of the session until the order.
"""

from typing import Any

from ..changes import bill, place_order, put_in_cart
from ..choices import DELIVERY, money
from ..sites import SHOP as site
from ..web import Page, Redirect, Reply, Request
from .catalog import product_page


@site.post("/product/{}/cart")
def add(request: Request, product_id: int) -> Reply:
    """Add a product to the cart."""
    user, product = request.member(), request.find("products", id=product_id)
    line: dict[str, Any] = {"user_id": user["id"], "product_id": product_id}
    errors = []
    for name in ("color", "size"):
        line[name] = request.form.text(name) if product[f"{name}s"] else ""
        if product[f"{name}s"] and line[name] not in product[f"{name}s"].split(","):
            errors.append(f"Choose a {name}.")
    quantity = request.form.number("quantity") or 0
    held = sum(row["quantity"] for row in request.db.find("cart_lines", **line))
    errors += _quantity_errors(quantity, held, product["stock"])
    if errors:
        return product_page(request, product_id, errors)
    put_in_cart(request.db, quantity, **line)
    return Redirect("/cart", f"{product['name']} has been added to your cart.")


def _quantity_errors(quantity: int, held: int, stock: int) -> list[str]:
    if quantity < 1:
        return ["The quantity must be a whole number of at least 1."]
    if quantity + held > stock:
        return [f"Only {stock} in stock." if stock else "This product is out of stock."]
    return []


@site.get("/cart")
def cart(request: Request) -> Page:
    """Display the cart."""
    return _cart_page(request)


def _cart_page(request: Request, *errors: str) -> Page:
    user = request.member()
    held = request.db.value("SELECT code FROM cart_coupons WHERE user_id = ?", user["id"])
    return Page("Cart", "cart.cart", errors, bill=bill(request.db, user["id"]), held=held)


def _line(request: Request) -> dict[str, Any]:
    form = request.form
    key = {"product_id": form.number("product"), "color": form.text("color"), "size": form.text("size")}
    return {"user_id": request.member()["id"], **key}


@site.post("/cart/change")
def change(request: Request) -> Reply:
    """Set the quantity of a line."""
    line, quantity = _line(request), request.form.number("quantity") or 0
    stock = request.db.value("SELECT stock FROM products WHERE id = ?", line["product_id"]) or 0
    errors = _quantity_errors(quantity, 0, stock)
    if errors:
        return _cart_page(request, *errors)
    request.db.edit("cart_lines", line, quantity=quantity)
    return Redirect("/cart", "The cart has been updated.")


@site.post("/cart/remove")
def remove(request: Request) -> Reply:
    """Remove a line."""
    request.db.remove("cart_lines", **_line(request))
    return Redirect("/cart", "The product has been removed from your cart.")


@site.post("/cart/coupon")
def apply_coupon(request: Request) -> Reply:
    """Apply a coupon."""
    user, code = request.member(), request.form.text("code").upper()
    if not request.db.find("coupons", code=code):
        return _cart_page(request, "This coupon code is not valid.")
    request.db.remove("cart_coupons", user_id=user["id"])
    request.db.add("cart_coupons", user_id=user["id"], code=code)
    return Redirect("/cart", f"Coupon {code} has been applied.")


@site.post("/cart/coupon/remove")
def remove_coupon(request: Request) -> Reply:
    """Remove the coupon."""
    request.db.remove("cart_coupons", user_id=request.member()["id"])
    return Redirect("/cart", "The coupon has been removed.")


@site.get("/checkout")
def begin(request: Request) -> Reply:
    """Start with an empty draft."""
    request.member()
    request.draft("checkout").clear()
    return Redirect("/checkout/address")


@site.form("/checkout/address")
def address(request: Request) -> Reply:
    """Step 1: choose an address."""
    user, draft, errors = request.member(), request.draft("checkout"), []
    if request.posted:
        number = request.form.number("address")
        if request.db.find("addresses", id=number, user_id=user["id"]):
            draft["address"] = number
            return Redirect("/checkout/delivery")
        errors = ["Choose an address."]
    if not request.db.find("cart_lines", user_id=user["id"]):
        return Redirect("/cart", "Your cart is empty.")
    rows = request.db.rows("SELECT * FROM addresses WHERE user_id = ? ORDER BY id", user["id"])
    options = [(row["id"], f"{row['label']}: {row['recipient']}, {row['street']}, {row['city']}") for row in rows]
    return Page("Checkout, step 1 of 3: address", "cart.address", errors, options=options, draft=draft)


@site.form("/checkout/delivery")
def delivery(request: Request) -> Reply:
    """Step 2: choose a delivery method, and write a note."""
    draft, errors = request.draft("checkout"), []
    if request.posted:
        chosen = request.form.text("delivery")
        if chosen in DELIVERY:
            draft.update(delivery=chosen, note=request.form.text("note"))
            return Redirect("/checkout/review")
        errors = ["Choose a delivery method."]
    request.member()
    if "address" not in draft:
        return Redirect("/checkout/address")
    options = [(key, f"{name}, {money(price)}") for key, (name, price) in DELIVERY.items()]
    return Page("Checkout, step 2 of 3: delivery", "cart.delivery", errors, options=options, draft=draft)


@site.get("/checkout/review")
def review(request: Request) -> Reply:
    """Step 3: display the order."""
    user, draft = request.member(), request.draft("checkout")
    if "delivery" not in draft:
        return Redirect("/checkout/delivery")
    to = request.find("addresses", id=draft["address"], user_id=user["id"])
    due, method = bill(request.db, user["id"]), DELIVERY[draft["delivery"]]
    return Page("Checkout, step 3 of 3: review", "cart.review", bill=due, address=to, method=method, draft=draft)


@site.post("/checkout/place")
def place(request: Request) -> Reply:
    """Place the order."""
    user, draft = request.member(), request.draft("checkout")
    lines = bill(request.db, user["id"]).lines
    if "delivery" not in draft or not lines:
        return Redirect("/cart", "There is nothing to order yet.")
    for line in lines:
        held = sum(other["quantity"] for other in lines if other["product_id"] == line["product_id"])
        if held > line["stock"]:
            return Redirect("/cart", f"Only {line['stock']} of {line['name']} in stock.")
    to = request.find("addresses", id=draft["address"], user_id=user["id"])
    order_id = place_order(request.db, request.today, user["id"], to, draft["delivery"], draft["note"])
    request.session.drafts.pop("checkout", None)
    return Redirect(f"/orders/{order_id}", f"Order {order_id} has been placed.")
