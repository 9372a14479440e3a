"""Tasks in the shop: lookup, search, cart and checkout. The tasks on the user's account are in ``shop_account``."""

from .....draws import NoInstance, SeededDraws
from ..server.changes import bill, place_order, put_in_cart
from ..server.choices import DELIVERY, line_name, money
from ..state import Row, World
from ..worlds.shop import world
from .plans import change, question
from .template import Acts, AppRegistry, Plan, answer, as_user, button, choose, fill, link, log_in, radio, search_for

registry = AppRegistry("shop", world)


def dollars(cents: int) -> str:
    """Return an amount in dollars, without the sign."""
    return money(cents).removeprefix("$")


def open_product(product: Row) -> Acts:
    """Find a product by its name."""
    return link("Search"), search_for(product["name"]), button("Search"), link(product["name"])


def unrequested_wish(product: Row) -> Acts:
    """Make a change that no goal requests."""
    return (*open_product(product), button("Add to wish list"))


def unwished(world: World, user: Row) -> Row:
    """Return a product that is not on the user's wish list."""
    wished = [row["product_id"] for row in world.find("wishes", user_id=user["id"])]
    return next(product for product in world.tables["products"] if product["id"] not in wished)


@registry.template("lookup")
def price(draws: SeededDraws, world: World) -> Plan:
    """Look up the price of a product."""
    product, other = draws.sample(world.tables["products"], 2)
    if product["price"] == other["price"]:
        raise NoInstance
    user = draws.choice(world.tables["users"])
    goal = f"What is the price of the product {product['name']}? Answer with the amount in dollars."
    right, wrong = dollars(product["price"]), (*open_product(other), answer(dollars(other["price"])))
    more = (*log_in(user), *unrequested_wish(unwished(world, user)), answer(right))
    return question(goal, open_product(product), right, wrong, more)


@registry.template("search")
def cheapest(draws: SeededDraws, world: World) -> Plan:
    """Find the cheapest or most expensive product of a brand within a price limit."""
    brand = draws.choice(sorted({product["brand"] for product in world.tables["products"]}))
    cheap, limit = draws.chance(0.5), 5 * draws.integer(1, 12)
    if not cheap:
        limit = 140 - limit
    fitting = sorted(
        (row for row in world.find("products", brand=brand) if row["stock"] and _within(row["price"], limit, cheap)),
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
    goal = (
        f"Among the products of the brand {brand} that are in stock and cost at {'least' if cheap else 'most'} "
        f"${limit}, which one is the {'cheapest' if cheap else 'most expensive'}? Answer with its name."
    )
    right, *wrong = fitting[0]["name"], fitting[1]["name"], fitting[-1]["name"]
    return question(goal, searched, right, *((*searched, answer(name)) for name in wrong), searched)


def _within(price: int, limit: int, least: bool) -> bool:
    return price >= 100 * limit if least else price <= 100 * limit


@registry.template("search")
def count_rated(draws: SeededDraws, world: World) -> Plan:
    """Count the products of a category within a price limit and a minimum rating."""
    category, rating = draws.choice(world.tables["categories"]), draws.choice((3, 4))
    most = 10 * draws.integer(3, 12)

    ratings: dict[int, list[int]] = {}
    for review in world.tables["reviews"]:
        ratings.setdefault(review["product_id"], []).append(review["rating"])

    def fits(product: Row) -> bool:
        stars = ratings.get(product["id"], [])
        return product["price"] <= 100 * most and bool(stars) and sum(stars) >= rating * len(stars)

    count = len([row for row in world.find("products", category_id=category["id"]) if fits(row)])
    everywhere = len([row for row in world.tables["products"] if fits(row)])
    if count < 2 or count == everywhere:
        raise NoInstance
    filters = (fill("Highest price in dollars", most), choose("Rating of at least", rating), button("Search"))
    goal = (
        f"How many products in the category {category['name']} cost at most ${most} and have an average rating of at "
        f"least {rating}? Products without reviews do not count. Answer with the number."
    )
    searched = (link("Search"), choose("Category", category["name"]), *filters)
    wrong = (link("Search"), *filters, answer(everywhere)), (link("Search"), answer(count + 1))
    return question(goal, searched, count, *wrong)


@registry.template("edit")
def add_to_cart(draws: SeededDraws, world: World) -> Plan:
    """Add a product in a color and size to the cart."""
    user = draws.choice(world.tables["users"])
    held = [row["product_id"] for row in world.find("cart_lines", user_id=user["id"])]
    fitting = [row for row in world.tables["products"] if row["stock"] and row["colors"] and row["id"] not in held]
    product = draws.choice(fitting)
    color, other = draws.sample(product["colors"].split(","), 2)
    size, quantity = draws.choice(product["sizes"].split(",")), draws.integer(1, 4)
    expected = world.expected_state()
    put_in_cart(expected, quantity, user_id=user["id"], product_id=product["id"], color=color, size=size)

    def added(color: str, quantity: int) -> Acts:
        sized = (choose("Size", size),) if size else ()
        options = (choose("Color", color), *sized, fill("Quantity", quantity))
        return (*open_product(product), *options, button("Add to cart"))

    variant = f"color {color}, size {size}" if size else f"color {color}"
    goal = f"{as_user(user)} and add the product {product['name']} to the cart: {variant}, quantity {quantity}."
    right = added(color, quantity)
    wrong = added(other, quantity), added(color, quantity + 1), (*right, *unrequested_wish(unwished(world, user)))
    return change(goal, user, expected, right, *wrong)


@registry.template("compound")
def change_cart(draws: SeededDraws, world: World) -> Plan:
    """Change the quantity of one product in the cart, and remove another one."""
    user = draws.choice(world.tables["users"])
    kept, gone = draws.sample(world.find("cart_lines", user_id=user["id"]), 2)
    quantity = draws.choice([number for number in range(1, 7) if number != kept["quantity"]])
    name, other = (line_name(world.row("products", id=line["product_id"]) | line) for line in (kept, gone))
    expected = world.expected_state().remove("cart_lines", **gone).edit("cart_lines", kept, quantity=quantity)

    def changed(name: str, other: str) -> Acts:
        update = fill(f"Quantity of {name}", quantity), button(f"Update {name}")
        return (link("Cart"), *update, button(f"Remove {other}"))

    goal = f"{as_user(user)}. In the cart, set the quantity of {name} to {quantity} and remove {other}."
    removed = link("Cart"), button(f"Remove {other}")
    return change(goal, user, expected, changed(name, other), removed, changed(other, name))


@registry.template("wizard")
def checkout(draws: SeededDraws, world: World) -> Plan:
    """Place an order with a coupon."""
    user = draws.choice(world.tables["users"])
    coupon = draws.choice(world.tables["coupons"])
    to, elsewhere = draws.sample(world.find("addresses", user_id=user["id"]), 2)
    delivery, other = draws.sample(tuple(DELIVERY), 2)
    expected = world.expected_state()
    expected.tables["cart_coupons"].append({"user_id": user["id"], "code": coupon["code"]})
    if not bill(expected, user["id"]).coupon:
        raise NoInstance
    place_order(expected, world.today, user["id"], to, delivery, note="")

    def ordered(to: Row, delivery: str, coupons: Acts) -> Acts:
        name, cost = DELIVERY[delivery]
        return (
            *(link("Cart"), *coupons, link("Check out")),
            *(radio(f"{to['label']}: {to['recipient']}, {to['street']}, {to['city']}"), button("Continue to delivery")),
            *(radio(f"{name}, ${dollars(cost)}"), button("Continue to review"), button("Place order")),
        )

    used = (fill("Coupon code", coupon["code"]), button("Apply coupon"))
    goal = (
        f"{as_user(user)} and order the items in the cart. Use the coupon {coupon['code']}, the address {to['label']} "
        f"and the delivery method '{DELIVERY[delivery][0]}', and leave the gift note empty."
    )
    wrong = ordered(elsewhere, delivery, used), ordered(to, other, used), ordered(to, delivery, ())
    return change(goal, user, expected, ordered(to, delivery, used), *wrong)


@registry.template("compound")
def wish_to_cart(draws: SeededDraws, world: World) -> Plan:
    """Move a product from the wish list to the cart."""
    user = draws.choice(world.tables["users"])
    wished = [row["product_id"] for row in world.find("wishes", user_id=user["id"])]
    products = [row for row in world.tables["products"] if row["id"] in wished]
    held = [row["product_id"] for row in world.find("cart_lines", user_id=user["id"])]
    ready = [row for row in products if row["stock"] and not row["colors"] and not row["sizes"]]
    product = draws.choice([row for row in ready if row["id"] not in held])
    other = draws.choice([row for row in products if row is not product])
    quantity = draws.integer(1, 5)
    expected = world.expected_state().remove("wishes", user_id=user["id"], product_id=product["id"])
    put_in_cart(expected, quantity, user_id=user["id"], product_id=product["id"], color="", size="")
    opened = link("Wish list"), link(product["name"])
    bought = (*opened, fill("Quantity", quantity), button("Add to cart"), link("Wish list"))
    goal = (
        f"{as_user(user)}. Add the product {product['name']} from the wish list to the cart with the quantity "
        f"{quantity}, and remove it from the wish list."
    )
    right, wrong = ((*bought, button(f"Remove {each['name']}")) for each in (product, other))
    return change(goal, user, expected, right, wrong)
