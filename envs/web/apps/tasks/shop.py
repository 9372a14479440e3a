"""Tasks in the shop: looking up, searching, the cart and the checkout. ``templates_shop_account`` holds the rest."""

from ..draws import Deal, NoInstance
from ..state import After, Row, World
from ..worlds.shop import DELIVERY, world
from .acts import answer, as_user, button, choose, fill, link, log_in, radio, search_for
from .template import Acts, Book, Plan

book = Book("shop", world)


def money(cents: int) -> str:
    """An amount in dollars, without the sign."""
    return f"{cents // 100}.{cents % 100:02}"


def open_product(product: Row) -> Acts:
    """Find a product by its name."""
    return link("Search"), search_for(product["name"]), button("Search"), link(product["name"])


def wish(product: Row) -> Acts:
    """A change that nobody asked for."""
    return (*open_product(product), button("Add to wish list"))


def unwished(world: World, user: Row) -> Row:
    """A product that is not on the user's wish list."""
    wished = [row["product_id"] for row in world.rows("wishes", user_id=user["id"])]
    return next(product for product in world.tables["products"] if product["id"] not in wished)


def named(line: Row, product: Row) -> str:
    """A line as the cart and an order name it."""
    kind = ", ".join(part for part in (line["color"], line["size"]) if part)
    return f"{product['name']} ({kind})" if kind else str(product["name"])


def put_in_cart(after: After, line: Row) -> None:
    """Add a line, or to the line that is there."""
    key = {name: line[name] for name in ("user_id", "product_id", "color", "size")}
    for row in after.tables["cart_lines"]:
        if all(row[name] == value for name, value in key.items()):
            row["quantity"] += line["quantity"]
            return
    after.tables["cart_lines"].append(line)


@book.template("look-up")
def price(deal: Deal, world: World) -> Plan:
    """What a product costs."""
    product, other = deal.several(world.tables["products"], 2)
    if product["price"] == other["price"]:
        raise NoInstance
    user = deal.pick(world.tables["users"])
    told = answer(money(product["price"]))
    return Plan(
        f"What does the product {product['name']} cost? Answer with the price in dollars.",
        (*open_product(product), told),
        ((*open_product(other), answer(money(other["price"]))), (*log_in(user), *wish(unwished(world, user)), told)),
        answer=money(product["price"]),
    )


@book.template("search")
def cheapest(deal: Deal, world: World) -> Plan:
    """The cheapest or dearest product of a brand from or up to a price."""
    brand = deal.pick(sorted({product["brand"] for product in world.tables["products"]}))
    cheap, limit = deal.chance(0.5), 5 * deal.number(1, 12)
    if not cheap:
        limit = 140 - limit
    fitting = sorted(
        (row for row in world.rows("products", brand=brand) if row["stock"] and _within(row["price"], limit, cheap)),
        key=lambda row: row["price"] if cheap else -row["price"],
    )
    if len(fitting) < 2 or fitting[0]["price"] == fitting[1]["price"]:
        raise NoInstance
    searched = (
        *(link("Search"), choose("Brand", brand), choose("Stock", "In stock only")),
        fill(f"{'Lowest' if cheap else 'Highest'} price in dollars", limit),
        choose("Sort by", f"Price, {'lowest' if cheap else 'highest'} first"),
        button("Search"),
    )
    return Plan(
        f"Of the products of the brand {brand} that are in stock and cost at {'least' if cheap else 'most'} ${limit}, "
        f"which is the {'cheapest' if cheap else 'dearest'}? Answer with its name.",
        (*searched, answer(fitting[0]["name"])),
        ((*searched, answer(fitting[1]["name"])), (*searched, answer(fitting[-1]["name"])), searched),
        answer=fitting[0]["name"],
    )


def _within(price: int, limit: int, least: bool) -> bool:
    return price >= 100 * limit if least else price <= 100 * limit


@book.template("search")
def count_rated(deal: Deal, world: World) -> Plan:
    """How many products of a category are rated so well."""
    category, rating = deal.pick(world.tables["categories"]), deal.pick((3, 4))
    most = 10 * deal.number(3, 12)

    ratings: dict[int, list[int]] = {}
    for review in world.tables["reviews"]:
        ratings.setdefault(review["product_id"], []).append(review["rating"])

    def fits(product: Row) -> bool:
        stars = ratings.get(product["id"], [])
        return product["price"] <= 100 * most and bool(stars) and sum(stars) >= rating * len(stars)

    count = len([row for row in world.rows("products", category_id=category["id"]) if fits(row)])
    everywhere = len([row for row in world.tables["products"] if fits(row)])
    if count < 2 or count == everywhere:
        raise NoInstance
    filters = (
        fill("Highest price in dollars", most),
        choose("Rating of at least", rating),
        button("Search"),
    )
    return Plan(
        f"How many products of the category {category['name']} cost at most ${most} and have an average rating of at "
        f"least {rating}? Products without reviews do not count. Answer with the number.",
        (link("Search"), choose("Category", category["name"]), *filters, answer(count)),
        ((link("Search"), *filters, answer(everywhere)), (link("Search"), answer(count + 1))),
        answer=str(count),
    )


@book.template("edit")
def add_to_cart(deal: Deal, world: World) -> Plan:
    """Put a product of this kind into the cart."""
    user = deal.pick(world.tables["users"])
    held = [row["product_id"] for row in world.rows("cart_lines", user_id=user["id"])]
    fitting = [row for row in world.tables["products"] if row["stock"] and row["colors"] and row["id"] not in held]
    product = deal.pick(fitting)
    color, other = deal.several(product["colors"].split(","), 2)
    size, quantity = deal.pick(product["sizes"].split(",")), deal.number(1, 4)
    after = world.after()
    line = {"user_id": user["id"], "product_id": product["id"], "color": color, "size": size, "quantity": quantity}
    put_in_cart(after, line)

    def added(color: str, quantity: int) -> Acts:
        sized = (choose("Size", size),) if size else ()
        options = (choose("Color", color), *sized, fill("Quantity", quantity))
        return (*log_in(user), *open_product(product), *options, button("Add to cart"))

    kind = f"{color}, size {size}" if size else color
    return Plan(
        f"{as_user(user)} and put {quantity} of the product {product['name']} into the cart, in the color {kind}.",
        added(color, quantity),
        (
            added(other, quantity),
            added(color, quantity + 1),
            (*added(color, quantity), *wish(unwished(world, user))),
            added(color, quantity)[:-1],
        ),
        after,
    )


@book.template("two")
def change_cart(deal: Deal, world: World) -> Plan:
    """Change how many of one product, and take another out."""
    user = deal.pick(world.tables["users"])
    kept, gone = deal.several(world.rows("cart_lines", user_id=user["id"]), 2)
    products = {row["id"]: row for row in world.tables["products"]}
    quantity = deal.pick([number for number in range(1, 7) if number != kept["quantity"]])
    name, other = named(kept, products[kept["product_id"]]), named(gone, products[gone["product_id"]])
    after = world.after().remove("cart_lines", **gone).edit("cart_lines", kept, quantity=quantity)
    cart = (*log_in(user), link("Cart"))
    change = fill(f"Quantity of {name}", quantity), button(f"Update {name}")
    return Plan(
        f"{as_user(user)}. In the cart, set the quantity of {name} to {quantity} and remove {other}.",
        (*cart, *change, button(f"Remove {other}")),
        (
            (*cart, *change),
            (*cart, button(f"Remove {other}")),
            (*cart, fill(f"Quantity of {other}", quantity), button(f"Update {other}"), button(f"Remove {name}")),
        ),
        after,
    )


@book.template("steps")
def checkout(deal: Deal, world: World) -> Plan:
    """Order what is in the cart."""
    user = deal.pick(world.tables["users"])
    lines, coupon = world.rows("cart_lines", user_id=user["id"]), deal.pick(world.tables["coupons"])
    to, elsewhere = deal.several(world.rows("addresses", user_id=user["id"]), 2)
    (delivery, cost), (other, _) = deal.several(tuple(DELIVERY.items()), 2)
    products = {row["id"]: row for row in world.tables["products"]}
    subtotal = sum(line["quantity"] * products[line["product_id"]]["price"] for line in lines)
    if subtotal < coupon["minimum"]:
        raise NoInstance
    after = world.after()
    order_id = after.add(
        "orders",
        user_id=user["id"],
        date=world.today,
        status="placed",
        **{part: to[part] for part in ("recipient", "street", "city", "postcode")},
        delivery=delivery,
        coupon=coupon["code"],
        note="",
        total=subtotal - subtotal * coupon["percent"] // 100 + cost,
    )
    for line in lines:
        product = products[line["product_id"]]
        bought = {name: line[name] for name in ("product_id", "color", "size", "quantity")}
        after.link("order_lines", order_id=order_id, **bought, price=product["price"])
        after.edit("products", {"id": product["id"]}, stock=product["stock"] - line["quantity"])
    after.remove("cart_lines", user_id=user["id"])

    def ordered(to: Row, delivery: str, coupons: Acts) -> Acts:
        return (
            *(*log_in(user), link("Cart"), *coupons, link("Check out")),
            *(radio(f"{to['label']}: {to['recipient']}, {to['street']}, {to['city']}"), button("Continue to delivery")),
            *(radio(NAMES[delivery]), button("Continue to review"), button("Place order")),
        )

    used = (fill("Coupon code", coupon["code"]), button("Use coupon"))
    right = ordered(to, delivery, used)
    return Plan(
        f"{as_user(user)} and order what is in the cart: with the coupon {coupon['code']}, to the address "
        f"{to['label']}, by {SPOKEN[delivery]}, without a gift note.",
        right,
        (ordered(elsewhere, delivery, used), ordered(to, other, used), ordered(to, delivery, ()), right[:-1]),
        after,
    )


NAMES = {
    "standard": "Standard delivery, $4.00",
    "express": "Express delivery, $12.00",
    "pickup": "Pick up, $0.00",
}
SPOKEN = {"standard": "standard delivery", "express": "express delivery", "pickup": "pick up"}


@book.template("two")
def wish_to_cart(deal: Deal, world: World) -> Plan:
    """Move a product from the wish list to the cart."""
    user = deal.pick(world.tables["users"])
    wished = [row["product_id"] for row in world.rows("wishes", user_id=user["id"])]
    products = [row for row in world.tables["products"] if row["id"] in wished]
    held = [row["product_id"] for row in world.rows("cart_lines", user_id=user["id"])]
    ready = [row for row in products if row["stock"] and not row["colors"] and not row["sizes"]]
    product = deal.pick([row for row in ready if row["id"] not in held])
    other = deal.pick([row for row in products if row is not product])
    quantity = deal.number(1, 5)
    after = world.after().remove("wishes", user_id=user["id"], product_id=product["id"])
    line = {"user_id": user["id"], "product_id": product["id"], "color": "", "size": "", "quantity": quantity}
    put_in_cart(after, line)
    bought = (
        *(*log_in(user), link("Wish list"), link(product["name"])),
        *(fill("Quantity", quantity), button("Add to cart"), link("Wish list")),
    )
    return Plan(
        f"{as_user(user)}. Put {quantity} of the product {product['name']} from the wish list into the cart, and "
        "take it "
        "off the wish list.",
        (*bought, button(f"Remove {product['name']}")),
        (bought, (*bought, button(f"Remove {other['name']}"))),
        after,
    )
