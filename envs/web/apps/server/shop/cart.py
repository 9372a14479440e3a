"""Cart pages: lines with quantities, and one coupon."""

from dataclasses import dataclass

from ..data import Data, Row
from ..html import Html, button, field, form, hidden, join, link, press, table, tag
from ..web import Page, Redirect, Reply, Request
from .base import line_name, money, site
from .catalog import product_page

LINES = """
SELECT cart_lines.*, products.name, products.price, products.stock FROM cart_lines
JOIN products ON products.id = product_id WHERE user_id = ? ORDER BY products.name, color, size
"""


@dataclass(frozen=True)
class Bill:
    """The amounts of a cart, in cents."""

    lines: tuple[Row, ...]
    subtotal: int
    coupon: str
    discount: int


def bill(db: Data, user_id: int) -> Bill:
    """Return the bill of a user's cart, without delivery. A coupon applies to subtotals of at least its minimum."""
    lines = tuple(db.rows(LINES, user_id))
    subtotal = sum(line["price"] * line["quantity"] for line in lines)
    coupon = db.row("SELECT coupons.* FROM cart_coupons JOIN coupons USING (code) WHERE user_id = ?", user_id)
    if coupon is None or subtotal < coupon["minimum"]:
        return Bill(lines, subtotal, "", 0)
    return Bill(lines, subtotal, coupon["code"], subtotal * coupon["percent"] // 100)


@site.post("/product/{}/cart")
def add(request: Request, product_id: int) -> Reply:
    """Add a product to the cart."""
    user = request.member()
    product = request.one("SELECT * FROM products WHERE id = ?", product_id)
    color, size = request.form.text("color"), request.form.text("size")
    quantity = request.form.number("quantity")
    errors = []
    if product["colors"] and color not in product["colors"].split(","):
        errors.append("Choose a color.")
    if product["sizes"] and size not in product["sizes"].split(","):
        errors.append("Choose a size.")
    key = (user["id"], product_id, color if product["colors"] else "", size if product["sizes"] else "")
    had = request.db.value(
        "SELECT quantity FROM cart_lines WHERE user_id = ? AND product_id = ? AND color = ? AND size = ?", *key
    )
    errors += _quantity_errors(quantity, had or 0, product["stock"])
    if errors:
        return product_page(request, product_id, tuple(errors))
    request.db.run("INSERT OR REPLACE INTO cart_lines VALUES (?, ?, ?, ?, ?)", *key, (had or 0) + (quantity or 0))
    return Redirect("/cart", f"{product['name']} has been added to your cart.")


def _quantity_errors(quantity: int | None, had: int, stock: int) -> list[str]:
    if quantity is None or quantity < 1:
        return ["The quantity must be a whole number of at least 1."]
    if quantity + had > stock:
        return [f"Only {stock} in stock." if stock else "This product is out of stock."]
    return []


@site.get("/cart")
def cart(request: Request) -> Page:
    """Display the cart."""
    return _cart_page(request)


def _cart_page(request: Request, errors: tuple[str, ...] = ()) -> Page:
    user = request.member()
    due = bill(request.db, user["id"])
    if not due.lines:
        return Page("Cart", tag("p", "Your cart is empty."), errors)
    rows = [(_product(line), money(line["price"]), _change(line), _remove(line)) for line in due.lines]
    held = request.db.value("SELECT code FROM cart_coupons WHERE user_id = ?", user["id"])
    body = join(
        table("Cart", ("Product", "Price", "Quantity", "Remove"), rows),
        tag("p", f"Subtotal: {money(due.subtotal)}"),
        tag("p", f"Coupon {due.coupon}: -{money(due.discount)}") if due.coupon else None,
        tag("p", f"Coupon {held} does not apply yet: the subtotal is below its minimum.")
        if held and not due.coupon
        else None,
        press(f"Remove coupon {held}", "/cart/coupon/remove")
        if held
        else form("/cart/coupon", field("Coupon code", "code"), button("Apply coupon")),
        tag("p", link("Check out", "/checkout")),
    )
    return Page("Cart", body, errors)


def _product(line: Row) -> Html:
    return link(line_name(line), f"/product/{line['product_id']}")


def _key(line: Row) -> Html:
    return join(hidden("product", line["product_id"]), hidden("color", line["color"]), hidden("size", line["size"]))


def _change(line: Row) -> Html:
    name = line_name(line)
    key = f"quantity-{line['product_id']}-{line['color']}-{line['size']}"
    label = tag("label", f"Quantity of {name}", for_=key)
    box = tag("input", type="text", inputmode="numeric", id=key, name="quantity", value=line["quantity"])
    return form("/cart/change", _key(line), label, box, button(f"Update {name}"))


def _remove(line: Row) -> Html:
    return form("/cart/remove", _key(line), button(f"Remove {line_name(line)}"))


def _asked_line(request: Request) -> tuple[object, ...]:
    form = request.form
    return (request.member()["id"], form.number("product"), form.text("color"), form.text("size"))


@site.post("/cart/change")
def change(request: Request) -> Reply:
    """Set the quantity of a line."""
    key, quantity = _asked_line(request), request.form.number("quantity")
    stock = request.db.value("SELECT stock FROM products WHERE id = ?", key[1]) or 0
    errors = _quantity_errors(quantity, 0, stock)
    if errors:
        return _cart_page(request, tuple(errors))
    request.db.run(
        "UPDATE cart_lines SET quantity = ? WHERE user_id = ? AND product_id = ? AND color = ? AND size = ?",
        quantity,
        *key,
    )
    return Redirect("/cart", "The cart has been updated.")


@site.post("/cart/remove")
def remove(request: Request) -> Reply:
    """Remove a line."""
    request.db.run(
        "DELETE FROM cart_lines WHERE user_id = ? AND product_id = ? AND color = ? AND size = ?", *_asked_line(request)
    )
    return Redirect("/cart", "The product has been removed from your cart.")


@site.post("/cart/coupon")
def apply_coupon(request: Request) -> Reply:
    """Apply a coupon."""
    user = request.member()
    code = request.form.text("code").upper()
    if request.db.row("SELECT 1 FROM coupons WHERE code = ?", code) is None:
        return _cart_page(request, ("This coupon code is not valid.",))
    request.db.run("INSERT OR REPLACE INTO cart_coupons VALUES (?, ?)", user["id"], code)
    return Redirect("/cart", f"Coupon {code} has been applied.")


@site.post("/cart/coupon/remove")
def remove_coupon(request: Request) -> Reply:
    """Remove the coupon."""
    request.db.run("DELETE FROM cart_coupons WHERE user_id = ?", request.member()["id"])
    return Redirect("/cart", "The coupon has been removed.")
