"""The initial data of the shop. Amounts are in cents."""

from typing import Any

from .....draws import SeededDraws
from ..server.choices import DELIVERY
from ..state import Row, Tables
from .common import as_world, day, numbered, people, words_of

WORDS = words_of("shop")
USERS = 14


def world(seed: int) -> dict[str, Any]:
    """Return ``today`` and ``tables`` of a shop with about 80 products, 14 users and 50 orders."""
    draws = SeededDraws(f"shop world {seed}")
    tables: Tables = {"users": _users(draws), "categories": [], "products": []}
    for name, nouns in WORDS["categories"].items():
        tables["categories"].append({"id": len(tables["categories"]) + 1, "name": name})
        for noun in nouns + draws.sample(nouns, 2):
            tables["products"].append(_product(draws, tables["products"], len(tables["categories"]), name, noun))
    tables["reviews"] = _reviews(draws, tables["products"])
    tables["coupons"] = [dict(coupon) for coupon in WORDS["coupons"]]
    tables["addresses"] = [
        _address(draws, user, label) for user in tables["users"] for label in WORDS["labels"][: draws.integer(2, 4)]
    ]
    for number, address in enumerate(tables["addresses"], 1):
        address["id"] = number
    tables["cart_lines"] = [line for user in tables["users"] for line in _cart(draws, user["id"], tables["products"])]
    tables["cart_coupons"] = []
    tables["wishes"] = [
        {"user_id": user["id"], "product_id": product["id"]}
        for user in tables["users"]
        for product in draws.sample(tables["products"], draws.integer(2, 5))
    ]
    tables["orders"], tables["order_lines"] = _orders(draws, tables)
    tables["returns"] = []
    return as_world("shop", tables)


def _users(draws: SeededDraws) -> list[Row]:
    settings = [(draws.integer(0, 1), draws.choice(("email", "phone", "none"))) for _ in range(USERS)]
    return numbered(
        {**person, "newsletter": newsletter, "contact": contact}
        for person, (newsletter, contact) in zip(people(draws, USERS), settings, strict=True)
    )


def _product(draws: SeededDraws, others: list[Row], category: int, group: str, noun: str) -> Row:
    taken = {product["name"] for product in others}
    name = draws.choice([f"{look} {noun}" for look in WORDS["looks"] if f"{look} {noun}" not in taken])
    colors = draws.sample(WORDS["colors"], draws.integer(2, 4)) if draws.chance(0.5) else ()
    sizes = WORDS["sizes"][: draws.integer(3, 4)] if group == "Clothing" else ()
    return {
        "id": len(others) + 1,
        "category_id": category,
        "name": name,
        "brand": draws.choice(WORDS["brands"]),
        "price": 100 * draws.integer(4, 140) + draws.choice((0, 50, 90, 95)),
        "stock": 0 if draws.chance(0.12) else draws.integer(6, 40),
        "colors": ",".join(colors),
        "sizes": ",".join(sizes),
        "description": " ".join(draws.sample(WORDS["descriptions"], 2)),
    }


def _reviews(draws: SeededDraws, products: list[Row]) -> list[Row]:
    return numbered(
        {
            "product_id": product["id"],
            "user_id": user,
            "rating": min(5, draws.integer(1, 7)),
            "title": draws.choice(WORDS["praise"]),
            "text": " ".join(draws.sample(WORDS["opinions"], draws.integer(1, 2))),
            "date": day(draws.integer(0, 300)),
        }
        for product in products
        for user in sorted(draws.sample(range(1, USERS + 1), draws.choice((0, 0, 1, 2, 2, 3, 4, 12))))
    )


def _address(draws: SeededDraws, user: Row, label: str) -> Row:
    return {
        "user_id": user["id"],
        "label": label,
        "recipient": user["name"],
        "street": f"{draws.integer(1, 120)} {draws.choice(WORDS['streets'])}",
        "city": draws.choice(WORDS["cities"]),
        "postcode": str(draws.integer(10000, 99999)),
    }


def _line(draws: SeededDraws, product: Row, most: int) -> Row:
    return {
        "product_id": product["id"],
        "color": draws.choice(product["colors"].split(",")),
        "size": draws.choice(product["sizes"].split(",")),
        "quantity": draws.integer(1, most),
    }


def _cart(draws: SeededDraws, user_id: int, products: list[Row]) -> list[Row]:
    available = [product for product in products if product["stock"]]
    chosen = draws.sample(available, draws.integer(2, 4))
    return [{"user_id": user_id, **_line(draws, product, 3)} for product in chosen]


def _orders(draws: SeededDraws, tables: Tables) -> tuple[list[Row], list[Row]]:
    orders, lines = list[Row](), list[Row]()
    owners = [user["id"] for user in tables["users"] for _ in range(draws.integer(3, 5))]
    days = sorted(draws.sample(range(300), len(owners)), reverse=True)
    for number, (user_id, ago) in enumerate(zip(draws.sample(owners, len(owners)), days, strict=True), 1001):
        address = draws.choice([each for each in tables["addresses"] if each["user_id"] == user_id])
        bought = draws.sample(tables["products"], draws.integer(1, 3))
        mine = [{"order_id": number, **_line(draws, product, 2), "price": product["price"]} for product in bought]
        delivery = draws.choice(tuple(DELIVERY))
        status = "delivered" if ago > 150 else draws.choice(("placed", "placed", "shipped", "cancelled"))
        orders.append(
            {
                "id": number,
                "user_id": user_id,
                "date": day(ago),
                "status": status,
                **{part: address[part] for part in ("recipient", "street", "city", "postcode")},
                "delivery": delivery,
                "coupon": "",
                "note": "",
                "total": sum(line["price"] * line["quantity"] for line in mine) + DELIVERY[delivery][1],
            }
        )
        lines += mine
    return orders, lines
