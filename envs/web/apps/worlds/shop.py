"""The world of the shop: a pure function of the seed. Amounts are in cents."""

from typing import Any

from ..draws import Deal, words
from ..state import Row, Tables
from .people import day, people

TODAY = "2031-06-03"
CATEGORIES = {
    "Kitchen": words("mug kettle pan plate bowl teapot jug tray ladle whisk grater colander"),
    "Clothing": words("jacket scarf shirt sweater cap coat vest skirt hoodie belt apron robe"),
    "Garden": words("rake bench planter hose lantern spade trowel birdhouse hammock trellis parasol bucket"),
    "Office": words("lamp notebook stapler folder clock chair shelf calendar organiser easel blotter ruler"),
    "Sports": words("racket mat bottle kettlebell rope helmet paddle frisbee goggles whistle scooter towel"),
    "Travel": words("suitcase backpack umbrella pillow wallet purse trunk compass flask pouch poncho tent"),
}
LOOKS = words("Nordic Rustic Compact Classic Velvet Granite Coastal Alpine Urban Vintage Breezy Solid Sunny Royal")
BRANDS = words("Havel Norrland Pimento Quarry Tilia Wayfare Ostrom")
COLOURS = words("red blue green black white yellow grey orange")
SIZES = ("S", "M", "L", "XL")
SAID = (
    "Made to last for years.",
    "Light, and easy to clean.",
    "A favourite of our customers.",
    "Comes in a cardboard box.",
    "Repaired free of charge for two years.",
)
PRAISE = ("Very happy with it", "Does what it should", "Good value", "Not what I expected", "Broke too soon")
OPINIONS = (
    "I use it every day.",
    "It arrived quickly and was packed well.",
    "The color is a little different from the picture.",
    "I would buy it again.",
    "My sister has one too, and likes it less.",
)
STREETS = ("Mill Lane", "Harbour Road", "Station Street", "Oak Avenue", "Chapel Hill", "Meadow Way", "Bridge Street")
CITIES = words("Aldbury Brenton Calder Dunmore Eastham Farley Granton Hexley")
LABELS = ("Home", "Work", "Parents", "Holiday flat")
CODES = (("SPRING10", 10, 0), ("SAVE15", 15, 5000), ("BIG25", 25, 20000), ("HELLO5", 5, 0))
DELIVERY = {"standard": 400, "express": 1200, "pickup": 0}
USERS = 14


def world(seed: int) -> dict[str, Any]:
    """``today`` and ``tables`` of a shop with about 80 products, 14 users and 50 orders."""
    deal = Deal(f"shop world {seed}")
    tables: Tables = {"users": _users(deal), "categories": [], "products": []}
    for name, nouns in CATEGORIES.items():
        tables["categories"].append({"id": len(tables["categories"]) + 1, "name": name})
        for noun in nouns + deal.several(nouns, 2):
            tables["products"].append(_product(deal, tables["products"], len(tables["categories"]), name, noun))
    tables["reviews"] = _reviews(deal, tables["products"])
    tables["coupons"] = [{"code": code, "percent": percent, "minimum": least} for code, percent, least in CODES]
    tables["addresses"] = [_address(deal, user, label) for user in tables["users"] for label in _some_labels(deal)]
    for number, address in enumerate(tables["addresses"], 1):
        address["id"] = number
    tables["cart_lines"] = [line for user in tables["users"] for line in _cart(deal, user["id"], tables["products"])]
    tables["cart_coupons"] = []
    tables["wishes"] = [
        {"user_id": user["id"], "product_id": product["id"]}
        for user in tables["users"]
        for product in deal.several(tables["products"], deal.number(2, 5))
    ]
    tables["orders"], tables["order_lines"] = _orders(deal, tables)
    tables["returns"] = []
    return {"site": "shop", "today": TODAY, "tables": tables}


def _users(deal: Deal) -> list[Row]:
    settings = [(deal.number(0, 1), deal.pick(("email", "phone", "none"))) for _ in range(USERS)]
    return [
        {"id": number, **person, "newsletter": newsletter, "contact": contact}
        for number, (person, (newsletter, contact)) in enumerate(zip(people(deal, USERS), settings, strict=True), 1)
    ]


def _product(deal: Deal, others: list[Row], category: int, group: str, noun: str) -> Row:
    taken = {product["name"] for product in others}
    name = deal.pick([f"{look} {noun}" for look in LOOKS if f"{look} {noun}" not in taken])
    colors = deal.several(COLOURS, deal.number(2, 4)) if deal.chance(0.5) else ()
    sizes = SIZES[: deal.number(3, 4)] if group == "Clothing" else ()
    return {
        "id": len(others) + 1,
        "category_id": category,
        "name": name,
        "brand": deal.pick(BRANDS),
        "price": 100 * deal.number(4, 140) + deal.pick((0, 50, 90, 95)),
        "stock": 0 if deal.chance(0.12) else deal.number(6, 40),
        "colors": ",".join(colors),
        "sizes": ",".join(sizes),
        "description": " ".join(deal.several(SAID, 2)),
    }


def _reviews(deal: Deal, products: list[Row]) -> list[Row]:
    reviews = list[Row]()
    for product in products:
        for user in sorted(deal.several(range(1, USERS + 1), deal.pick((0, 0, 1, 2, 2, 3, 4, 12)))):
            reviews.append(
                {
                    "id": len(reviews) + 1,
                    "product_id": product["id"],
                    "user_id": user,
                    "rating": min(5, deal.number(1, 7)),
                    "title": deal.pick(PRAISE),
                    "text": " ".join(deal.several(OPINIONS, deal.number(1, 2))),
                    "date": day(deal.number(0, 300)),
                }
            )
    return reviews


def _some_labels(deal: Deal) -> tuple[str, ...]:
    return LABELS[: deal.number(2, 4)]


def _address(deal: Deal, user: Row, label: str) -> Row:
    return {
        "user_id": user["id"],
        "label": label,
        "recipient": user["name"],
        "street": f"{deal.number(1, 120)} {deal.pick(STREETS)}",
        "city": deal.pick(CITIES),
        "postcode": str(deal.number(10000, 99999)),
    }


def _line(deal: Deal, product: Row, most: int) -> Row:
    return {
        "product_id": product["id"],
        "color": deal.pick(product["colors"].split(",")),
        "size": deal.pick(product["sizes"].split(",")),
        "quantity": deal.number(1, most),
    }


def _cart(deal: Deal, user_id: int, products: list[Row]) -> list[Row]:
    available = [product for product in products if product["stock"]]
    chosen = deal.several(available, deal.number(2, 4))
    return [{"user_id": user_id, **_line(deal, product, 3)} for product in chosen]


def _orders(deal: Deal, tables: Tables) -> tuple[list[Row], list[Row]]:
    orders, lines = list[Row](), list[Row]()
    owners = [user["id"] for user in tables["users"] for _ in range(deal.number(3, 5))]
    days = sorted(deal.several(range(300), len(owners)), reverse=True)
    for number, (user_id, ago) in enumerate(zip(deal.several(owners, len(owners)), days, strict=True), 1001):
        address = deal.pick([each for each in tables["addresses"] if each["user_id"] == user_id])
        bought = deal.several(tables["products"], deal.number(1, 3))
        mine = [{"order_id": number, **_line(deal, product, 2), "price": product["price"]} for product in bought]
        delivery = deal.pick(tuple(DELIVERY))
        status = "delivered" if ago > 150 else deal.pick(("placed", "placed", "shipped", "cancelled"))
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
                "total": sum(line["price"] * line["quantity"] for line in mine) + DELIVERY[delivery],
            }
        )
        lines += mine
    return orders, lines
