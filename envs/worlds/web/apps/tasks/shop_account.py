"""Tasks in the shop on the user's account: orders, addresses, reviews and settings."""

from .....draws import NoInstance, SeededDraws
from ..server.changes import cancel_order as cancel
from ..server.choices import CONTACTS, REFUNDS, RETURN_REASONS, count_of
from ..state import Row, World
from ..worlds.shop import WORDS
from .plans import change, question
from .shop import dollars, open_product, registry, unrequested_wish, unwished
from .template import Act, Acts, Plan, answer, as_user, button, choose, fill, link, log_in, radio, tick


@registry.template("lookup")
def order_total(draws: SeededDraws, world: World) -> Plan:
    """Look up the total of the order that contains a product."""
    user = draws.choice(world.tables["users"])
    orders = world.find("orders", user_id=user["id"])
    order, other = draws.sample(orders, 2)
    line = draws.choice(world.find("order_lines", order_id=order["id"]))
    product = world.row("products", id=line["product_id"])
    holding = {row["order_id"] for row in world.find("order_lines", product_id=product["id"])}
    if len(holding & {row["id"] for row in orders}) > 1 or order["total"] == other["total"]:
        raise NoInstance
    begin = (*log_in(user), link("Orders"), link(f"Order {order['id']}"))
    goal = (
        f"{as_user(user)}. One of your orders contains the product {product['name']}. What is the total of that order? "
        "Answer with the amount in dollars."
    )
    right, wrong = dollars(order["total"]), (*begin, answer(dollars(other["total"])))
    more = (*begin, *unrequested_wish(unwished(world, user)), answer(right))
    return question(goal, begin, right, wrong, more)


@registry.template("edit")
def cancel_order(draws: SeededDraws, world: World) -> Plan:
    """Cancel an order."""
    order = draws.choice(world.find("orders", status="placed"))
    user = world.row("users", id=order["user_id"])
    expected = world.expected_state()
    cancel(expected, order["id"])
    begin = (link("Orders"), link(f"Order {order['id']}"), link("Cancel this order"))
    right = (*begin, button("Cancel order"))
    goal = f"{as_user(user)} and cancel order {order['id']}, placed on {order['date']}."
    wrong = (*begin, link("Go back")), (*right, *unrequested_wish(unwished(world, user)))
    return change(goal, user, expected, right, *wrong)


@registry.template("wizard")
def return_product(draws: SeededDraws, world: World) -> Plan:
    """Return a product of an order."""
    order = draws.choice(world.find("orders", status="delivered"))
    user, lines = world.row("users", id=order["user_id"]), world.find("order_lines", order_id=order["id"])
    line, second = draws.sample(lines, 2)
    product, other = world.row("products", id=line["product_id"]), world.row("products", id=second["product_id"])
    reason, wrong = draws.sample(RETURN_REASONS, 2)
    refund = draws.choice(tuple(REFUNDS))
    expected = world.expected_state()
    expected.add(
        "returns", order_id=order["id"], product_id=product["id"], reason=reason, refund=refund, date=world.today
    )

    def returned(product: Row, reason: str) -> Acts:
        return (
            *(link("Orders"), link(f"Order {order['id']}"), link("Return a product")),
            *(radio(product["name"]), button("Continue to reason"), choose("Reason", reason)),
            *(radio(REFUNDS[refund]), button("Continue to confirmation"), button("Submit return")),
        )

    goal = (
        f"{as_user(user)}. Return the product {product['name']} from order {order['id']} with the reason '{reason}' "
        f"and the refund '{REFUNDS[refund]}'."
    )
    right = returned(product, reason)
    return change(goal, user, expected, right, returned(other, reason), returned(product, wrong))


def _street(draws: SeededDraws) -> str:
    return f"{draws.integer(121, 199)} {draws.choice(WORDS['streets'])}"


@registry.template("create")
def add_address(draws: SeededDraws, world: World) -> Plan:
    """Add an address."""
    user = draws.choice(world.tables["users"])
    row = {
        "label": draws.choice(("Studio", "Garage", "Neighbor", "Summer house", "Workshop")),
        "recipient": f"{draws.choice(('Family', 'Office of'))} {user['name']}",
        "street": _street(draws),
        "city": draws.choice(WORDS["cities"]),
        "postcode": str(draws.integer(10000, 99999)),
    }
    expected = world.expected_state()
    expected.add("addresses", user_id=user["id"], **row)
    begin = (link("Account"), link("Address book"), link("Add an address"))

    def filled(row: dict[str, str]) -> Acts:
        return (*begin, *(fill(name.capitalize(), value) for name, value in row.items()), button("Save address"))

    fields = ", ".join(f"{name} {value}" for name, value in row.items())
    goal = f"{as_user(user)} and add an address to the address book: {fields}."
    another = filled({**row, "postcode": str(int(row["postcode"]) + 1)})
    more = (link("Edit Home"), fill("Label", "House"), button("Save address"))
    return change(goal, user, expected, filled(row), another, (*filled(row), *more))


@registry.template("edit")
def move_address(draws: SeededDraws, world: World) -> Plan:
    """Change the street and the postcode of an address."""
    user = draws.choice(world.tables["users"])
    row, other = draws.sample(world.find("addresses", user_id=user["id"]), 2)
    new = {"street": _street(draws), "postcode": str(draws.integer(10000, 99999))}

    def moved(row: Row, *fields: str) -> Acts:
        filled = (fill(name.capitalize(), new[name]) for name in fields)
        opened = (link("Account"), link("Address book"), link(f"Edit {row['label']}"))
        return (*opened, *filled, button("Save address"))

    goal = (
        f"{as_user(user)}. In the address book, change the street of the address {row['label']} to {new['street']} and "
        f"its postcode to {new['postcode']}."
    )
    expected = world.expected_state().edit("addresses", {"id": row["id"]}, **new)
    return change(goal, user, expected, moved(row, *new), moved(other, *new), moved(row, "street"))


@registry.template("delete")
def delete_address(draws: SeededDraws, world: World) -> Plan:
    """Delete an address, identified by its city and street."""
    user = draws.choice(world.tables["users"])
    row, other = draws.sample(world.find("addresses", user_id=user["id"]), 2)
    book = (link("Account"), link("Address book"))
    right, wrong = ((link(f"Delete {each['label']}"), button("Delete address")) for each in (row, other))
    goal = f"{as_user(user)} and delete the address at {row['street']}, {row['city']}, from the address book."
    expected = world.expected_state().remove("addresses", id=row["id"])
    return change(goal, user, expected, (*book, *right), (*book, *wrong), (*book, *right, *wrong))


@registry.template("create")
def write_review(draws: SeededDraws, world: World) -> Plan:
    """Write a review of a product."""
    user = draws.choice(world.tables["users"])
    done = [row["product_id"] for row in world.find("reviews", user_id=user["id"])]
    product, other = draws.sample([row for row in world.tables["products"] if row["id"] not in done], 2)
    stars, wrong = draws.sample(range(1, 6), 2)
    title, text = draws.choice(WORDS["praise"]), draws.choice(WORDS["opinions"])
    expected = world.expected_state()
    expected.add(
        "reviews", product_id=product["id"], user_id=user["id"], rating=stars, title=title, text=text, date=world.today
    )

    def written(product: Row, stars: int) -> Acts:
        rated = radio(count_of(stars, "star"))
        form = (link("Write a review"), rated, fill("Title", title), fill("Text", text), button("Save review"))
        return (*open_product(product), *form)

    goal = (
        f"{as_user(user)} and write a review of the product {product['name']}: rating {stars}, "
        f"title '{title}', text '{text}'"
    )
    return change(goal, user, expected, written(product, stars), written(other, stars), written(product, wrong))


@registry.template("delete")
def delete_review(draws: SeededDraws, world: World) -> Plan:
    """Delete the user's own review."""
    review = draws.choice(world.tables["reviews"])
    product, user = world.row("products", id=review["product_id"]), world.row("users", id=review["user_id"])
    others = [row for row in world.find("reviews", user_id=user["id"]) if row is not review]
    other = draws.choice(others)
    second = world.row("products", id=other["product_id"])
    first_page = [row["id"] for row in _newest(world, product)], [row["id"] for row in _newest(world, second)]
    if review["id"] not in first_page[0] or other["id"] not in first_page[1]:
        raise NoInstance

    def deleted(product: Row, review: Row) -> Acts:
        return (*open_product(product), link(f"Delete review {review['title']}"), button("Delete review"))

    goal = f"{as_user(user)} and delete your review of the product {product['name']}."
    expected = world.expected_state().remove("reviews", id=review["id"])
    right, wrong = deleted(product, review), deleted(second, other)
    return change(goal, user, expected, right, wrong, (*right, *wrong))


def _newest(world: World, product: Row) -> list[Row]:
    rows = world.find("reviews", product_id=product["id"])
    return sorted(rows, key=lambda row: (row["date"], row["id"]), reverse=True)[:10]


@registry.template("edit")
def settings(draws: SeededDraws, world: World) -> Plan:
    """Change the e-mail address, the newsletter subscription and the contact method."""
    user = draws.choice(world.tables["users"])
    email = f"{user['login']}{draws.integer(1, 99)}@{draws.choice(('mail', 'post', 'letters'))}.example"
    contact, wrong = draws.sample([each for each in CONTACTS if each != user["contact"]], 2)
    wanted = 1 - user["newsletter"]

    def saved(contact: str, *more: Act) -> Acts:
        chosen = choose("Contact me", CONTACTS[contact])
        return (link("Account"), fill("E-mail", email), chosen, *more, button("Save settings"))

    newsletter, turn = tick("Send me the newsletter"), "subscribe to" if wanted else "unsubscribe from"
    goal = (
        f"{as_user(user)}. In the account settings, change the e-mail address to {email}, {turn} the newsletter, and "
        f"set 'Contact me' to '{CONTACTS[contact]}'."
    )
    expected = world.expected_state()
    expected.edit("users", {"id": user["id"]}, email=email, newsletter=wanted, contact=contact)
    return change(goal, user, expected, saved(contact, newsletter), saved(wrong, newsletter), saved(contact))
