"""Tasks in the shop that are about what a user has there: orders, addresses, reviews, settings."""

from ..draws import Deal, NoInstance
from ..state import Row, World
from ..worlds.shop import CITIES, OPINIONS, PRAISE, STREETS
from .acts import answer, as_user, button, choose, fill, link, log_in, radio, tick
from .shop import book, money, open_product, unwished, wish
from .template import Acts, Plan

REASONS = ("Too small", "Too large", "Damaged", "Wrong product", "No longer needed")
REFUNDS = {"card": "To my card", "voucher": "As a voucher"}
CONTACTS = {"email": "By e-mail", "phone": "By phone", "none": "Not at all"}


@book.template("look-up")
def order_total(deal: Deal, world: World) -> Plan:
    """What an order came to, found by a product in it."""
    user = deal.pick(world.tables["users"])
    orders = world.rows("orders", user_id=user["id"])
    order, other = deal.several(orders, 2)
    line = deal.pick(world.rows("order_lines", order_id=order["id"]))
    product = world.row("products", id=line["product_id"])
    holding = {row["order_id"] for row in world.rows("order_lines", product_id=product["id"])}
    if len(holding & {row["id"] for row in orders}) > 1 or order["total"] == other["total"]:
        raise NoInstance
    begin = (*log_in(user), link("Orders"), link(f"Order {order['id']}"))
    return Plan(
        f"{as_user(user)}. One of the orders holds the product {product['name']}: what is the total of that order? "
        "Answer with the amount in dollars.",
        (*begin, answer(money(order["total"]))),
        (
            (*begin, answer(money(other["total"]))),
            (*begin, *wish(unwished(world, user)), answer(money(order["total"]))),
        ),
        answer=money(order["total"]),
    )


@book.template("edit")
def cancel_order(deal: Deal, world: World) -> Plan:
    """Cancel an order."""
    order = deal.pick(world.rows("orders", status="placed"))
    user = world.row("users", id=order["user_id"])
    after = world.after().edit("orders", {"id": order["id"]}, status="cancelled")
    stock = {row["id"]: row["stock"] for row in world.tables["products"]}
    for line in world.rows("order_lines", order_id=order["id"]):
        stock[line["product_id"]] += line["quantity"]
        after.edit("products", {"id": line["product_id"]}, stock=stock[line["product_id"]])
    asked = (*log_in(user), link("Orders"), link(f"Order {order['id']}"), link("Cancel this order"))
    return Plan(
        f"{as_user(user)} and cancel the order {order['id']} of {order['date']}.",
        (*asked, button("Cancel order")),
        (asked, (*asked, link("Keep it")), (*asked, button("Cancel order"), *wish(unwished(world, user)))),
        after,
    )


@book.template("steps")
def return_product(deal: Deal, world: World) -> Plan:
    """Return a product of an order."""
    order = deal.pick(world.rows("orders", status="delivered"))
    user, lines = world.row("users", id=order["user_id"]), world.rows("order_lines", order_id=order["id"])
    line, second = deal.several(lines, 2)
    product, other = world.row("products", id=line["product_id"]), world.row("products", id=second["product_id"])
    reason, wrong = deal.several(REASONS, 2)
    refund = deal.pick(tuple(REFUNDS))
    after = world.after()
    after.add("returns", order_id=order["id"], product_id=product["id"], reason=reason, refund=refund, date=world.today)

    def returned(product: Row, reason: str) -> Acts:
        return (
            *(*log_in(user), link("Orders"), link(f"Order {order['id']}"), link("Return a product")),
            *(radio(product["name"]), button("Continue to reason"), choose("Reason", reason)),
            *(radio(REFUNDS[refund]), button("Continue to confirmation"), button("Send return")),
        )

    right = returned(product, reason)
    how = "to the card" if refund == "card" else "as a voucher"
    return Plan(
        f"{as_user(user)}. Return the product {product['name']} of order {order['id']} for the reason '{reason}', with "
        f"the refund {how}.",
        right,
        (returned(other, reason), returned(product, wrong), right[:-1]),
        after,
    )


def _street(deal: Deal) -> str:
    return f"{deal.number(121, 199)} {deal.pick(STREETS)}"


@book.template("create")
def add_address(deal: Deal, world: World) -> Plan:
    """Add an address."""
    user = deal.pick(world.tables["users"])
    row = {
        "label": deal.pick(("Studio", "Garage", "Neighbour", "Summer house", "Workshop")),
        "recipient": f"{deal.pick(('Family', 'Office of'))} {user['name']}",
        "street": _street(deal),
        "city": deal.pick(CITIES),
        "postcode": str(deal.number(10000, 99999)),
    }
    after = world.after()
    after.add("addresses", user_id=user["id"], **row)
    begin = (*log_in(user), link("Account"), link("Address book"), link("Add an address"))

    def filled(row: dict[str, str]) -> Acts:
        return (*begin, *(fill(name.capitalize(), value) for name, value in row.items()), button("Save address"))

    said = ", ".join(f"{name} {value}" for name, value in row.items())
    return Plan(
        f"{as_user(user)} and add an address to the address book: {said}.",
        filled(row),
        (
            filled({**row, "postcode": str(int(row["postcode"]) + 1)}),
            filled(row)[:-1],
            (*filled(row), link("Edit Home"), fill("Label", "House"), button("Save address")),
        ),
        after,
    )


@book.template("edit")
def move_address(deal: Deal, world: World) -> Plan:
    """Change the street and the postcode of an address."""
    user = deal.pick(world.tables["users"])
    row, other = deal.several(world.rows("addresses", user_id=user["id"]), 2)
    new = {"street": _street(deal), "postcode": str(deal.number(10000, 99999))}
    begin = (*log_in(user), link("Account"), link("Address book"))
    changes = (fill("Street", new["street"]), fill("Postcode", new["postcode"]), button("Save address"))
    return Plan(
        f"{as_user(user)}. In the address book, change the street of the address {row['label']} to {new['street']} and "
        f"its postcode to {new['postcode']}.",
        (*begin, link(f"Edit {row['label']}"), *changes),
        (
            (*begin, link(f"Edit {other['label']}"), *changes),
            (*begin, link(f"Edit {row['label']}"), changes[0], changes[2]),
            (*begin, link(f"Edit {row['label']}"), *changes[:2]),
        ),
        world.after().edit("addresses", {"id": row["id"]}, **new),
    )


@book.template("delete")
def delete_address(deal: Deal, world: World) -> Plan:
    """Delete an address, found by its city and street."""
    user = deal.pick(world.tables["users"])
    row, other = deal.several(world.rows("addresses", user_id=user["id"]), 2)
    begin = (*log_in(user), link("Account"), link("Address book"))
    right = (*begin, link(f"Delete {row['label']}"), button("Delete address"))
    return Plan(
        f"{as_user(user)} and delete the address in {row['street']}, {row['city']}, from the address book.",
        right,
        (
            (*begin, link(f"Delete {other['label']}"), button("Delete address")),
            right[:-1],
            (*right, link(f"Delete {other['label']}"), button("Delete address")),
        ),
        world.after().remove("addresses", id=row["id"]),
    )


@book.template("create")
def write_review(deal: Deal, world: World) -> Plan:
    """Review a product."""
    user = deal.pick(world.tables["users"])
    done = [row["product_id"] for row in world.rows("reviews", user_id=user["id"])]
    product, other = deal.several([row for row in world.tables["products"] if row["id"] not in done], 2)
    stars, wrong = deal.several(range(1, 6), 2)
    title, text = deal.pick(PRAISE), deal.pick(OPINIONS)
    after = world.after()
    after.add(
        "reviews",
        product_id=product["id"],
        user_id=user["id"],
        rating=stars,
        title=title,
        text=text,
        date=world.today,
    )

    def written(product: Row, stars: int) -> Acts:
        rated = radio(f"{stars} star{'s' if stars > 1 else ''}")
        form = (link("Write a review"), rated, fill("Title", title), fill("Text", text), button("Save review"))
        return (*log_in(user), *open_product(product), *form)

    return Plan(
        f"{as_user(user)} and review the product {product['name']}: rating {stars}, title '{title}', text '{text}'",
        written(product, stars),
        (written(other, stars), written(product, wrong), written(product, stars)[:-1]),
        after,
    )


@book.template("delete")
def delete_review(deal: Deal, world: World) -> Plan:
    """Delete a review of one's own."""
    review = deal.pick(world.tables["reviews"])
    product, user = world.row("products", id=review["product_id"]), world.row("users", id=review["user_id"])
    others = [row for row in world.rows("reviews", user_id=user["id"]) if row is not review]
    other = deal.pick(others)
    second = world.row("products", id=other["product_id"])
    first_page = [row["id"] for row in _newest(world, product)], [row["id"] for row in _newest(world, second)]
    if review["id"] not in first_page[0] or other["id"] not in first_page[1]:
        raise NoInstance

    def deleted(product: Row, review: Row) -> Acts:
        return (*open_product(product), link(f"Delete review {review['title']}"), button("Delete review"))

    return Plan(
        f"{as_user(user)} and delete your review of the product {product['name']}.",
        (*log_in(user), *deleted(product, review)),
        (
            (*log_in(user), *deleted(second, other)),
            (*log_in(user), *deleted(product, review)[:-1]),
            (*log_in(user), *deleted(product, review), *deleted(second, other)),
        ),
        world.after().remove("reviews", id=review["id"]),
    )


def _newest(world: World, product: Row) -> list[Row]:
    rows = world.rows("reviews", product_id=product["id"])
    return sorted(rows, key=lambda row: (row["date"], row["id"]), reverse=True)[:10]


@book.template("edit")
def settings(deal: Deal, world: World) -> Plan:
    """Change the e-mail, the newsletter and the way of contact."""
    user = deal.pick(world.tables["users"])
    email = f"{user['login']}{deal.number(1, 99)}@{deal.pick(('mail', 'post', 'letters'))}.example"
    contact, wrong = deal.several([each for each in CONTACTS if each != user["contact"]], 2)
    wanted = 1 - user["newsletter"]
    begin = (*log_in(user), link("Account"), fill("E-mail", email))
    newsletter, save = tick("Send me the newsletter"), button("Save settings")
    turn = "subscribe to" if wanted else "unsubscribe from"
    return Plan(
        f"{as_user(user)}. In the account, change the e-mail address to {email}, {turn} the newsletter, and set how to "
        f"be contacted to '{CONTACTS[contact]}'.",
        (*begin, choose("Contact me", CONTACTS[contact]), newsletter, save),
        (
            (*begin, choose("Contact me", CONTACTS[wrong]), newsletter, save),
            (*begin, choose("Contact me", CONTACTS[contact]), save),
            (*begin, choose("Contact me", CONTACTS[contact]), newsletter),
        ),
        world.after().edit("users", {"id": user["id"]}, email=email, newsletter=wanted, contact=contact),
    )
