"""The initial data of the shop. Amounts are in cents."""

from typing import Any

from ....draws import SeededDraws, words
from ..server.choices import DELIVERY
from ..state import Row, Tables
from .people import day, people

TODAY = "2031-06-03"
CATEGORIES = {
    "Kitchen": words("mug kettle pan plate bowl teapot jug tray ladle whisk grater colander"),
    "Clothing": words("jacket scarf shirt sweater cap coat vest skirt hoodie belt apron robe"),
    "Garden": words("rake bench planter hose lantern spade trowel birdhouse hammock trellis parasol bucket"),
    "Office": words("lamp notebook stapler folder clock chair shelf calendar organizer easel blotter ruler"),
    "Sports": words("racket mat bottle kettlebell rope helmet paddle frisbee goggles whistle scooter towel"),
    "Travel": words("suitcase backpack umbrella pillow wallet purse trunk compass flask pouch poncho tent"),
}
LOOKS = words("Nordic Rustic Compact Classic Velvet Granite Coastal Alpine Urban Vintage Breezy Solid Sunny Royal")
BRANDS = words("Havel Norrland Pimento Quarry Tilia Wayfare Ostrom")
COLORS = words("red blue green black white yellow gray orange")
SIZES = ("S", "M", "L", "XL")
SAID = (
    "Made to last for years.",
    "Light and easy to clean.",
    "A customer favorite.",
    "Comes in a cardboard box.",
    "Free repairs for two years.",
)
PRAISE = ("Very happy with it", "Does what it should", "Good value", "Not what I expected", "Broke too soon")
OPINIONS = (
    "I use it every day.",
    "It arrived quickly and was packed well.",
    "The color is a little different from the picture.",
    "I would buy it again.",
    "My sister has one too, but likes it less.",
)
STREETS = ("Mill Lane", "Harbor Road", "Station Street", "Oak Avenue", "Chapel Hill", "Meadow Way", "Bridge Street")
CITIES = words("Aldbury Brenton Calder Dunmore Eastham Farley Granton Hexley")
LABELS = ("Home", "Work", "Parents", "Vacation home")
CODES = (("SPRING10", 10, 0), ("SAVE15", 15, 5000), ("BIG25", 25, 20000), ("HELLO5", 5, 0))
USERS = 14


def world(seed: int) -> dict[str, Any]:
    """Return ``today`` and ``tables`` of a shop with about 80 products, 14 users and 50 orders."""
    draws = SeededDraws(f"shop world {seed}")
    tables: Tables = {"users": _users(draws), "categories": [], "products": []}
    for name, nouns in CATEGORIES.items():
        tables["categories"].append({"id": len(tables["categories"]) + 1, "name": name})
        for noun in nouns + draws.sample(nouns, 2):
            tables["products"].append(_product(draws, tables["products"], len(tables["categories"]), name, noun))
    tables["reviews"] = _reviews(draws, tables["products"])
    tables["coupons"] = [{"code": code, "percent": percent, "minimum": least} for code, percent, least in CODES]
    tables["addresses"] = [_address(draws, user, label) for user in tables["users"] for label in _some_labels(draws)]
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
    return {"site": "shop", "today": TODAY, "tables": tables}


def _users(draws: SeededDraws) -> list[Row]:
    settings = [(draws.integer(0, 1), draws.choice(("email", "phone", "none"))) for _ in range(USERS)]
    return [
        {"id": number, **person, "newsletter": newsletter, "contact": contact}
        for number, (person, (newsletter, contact)) in enumerate(zip(people(draws, USERS), settings, strict=True), 1)
    ]


def _product(draws: SeededDraws, others: list[Row], category: int, group: str, noun: str) -> Row:
    taken = {product["name"] for product in others}
    name = draws.choice([f"{look} {noun}" for look in LOOKS if f"{look} {noun}" not in taken])
    colors = draws.sample(COLORS, draws.integer(2, 4)) if draws.chance(0.5) else ()
    sizes = SIZES[: draws.integer(3, 4)] if group == "Clothing" else ()
    return {
        "id": len(others) + 1,
        "category_id": category,
        "name": name,
        "brand": draws.choice(BRANDS),
        "price": 100 * draws.integer(4, 140) + draws.choice((0, 50, 90, 95)),
        "stock": 0 if draws.chance(0.12) else draws.integer(6, 40),
        "colors": ",".join(colors),
        "sizes": ",".join(sizes),
        "description": " ".join(draws.sample(SAID, 2)),
    }


def _reviews(draws: SeededDraws, products: list[Row]) -> list[Row]:
    reviews = list[Row]()
    for product in products:
        for user in sorted(draws.sample(range(1, USERS + 1), draws.choice((0, 0, 1, 2, 2, 3, 4, 12)))):
            reviews.append(
                {
                    "id": len(reviews) + 1,
                    "product_id": product["id"],
                    "user_id": user,
                    "rating": min(5, draws.integer(1, 7)),
                    "title": draws.choice(PRAISE),
                    "text": " ".join(draws.sample(OPINIONS, draws.integer(1, 2))),
                    "date": day(draws.integer(0, 300)),
                }
            )
    return reviews


def _some_labels(draws: SeededDraws) -> tuple[str, ...]:
    return LABELS[: draws.integer(2, 4)]


def _address(draws: SeededDraws, user: Row, label: str) -> Row:
    return {
        "user_id": user["id"],
        "label": label,
        "recipient": user["name"],
        "street": f"{draws.integer(1, 120)} {draws.choice(STREETS)}",
        "city": draws.choice(CITIES),
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
