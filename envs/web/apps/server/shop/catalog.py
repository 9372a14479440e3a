"""Catalog pages: home, categories, search and products."""

from ..data import Row
from ..html import (
    Html,
    bullets,
    button,
    choice,
    count_of,
    facts,
    field,
    form,
    join,
    link,
    paragraphs,
    press,
    select,
    table,
    tag,
)
from ..html import hidden as hidden_field
from ..web import Page, Request, paged
from .base import money, site

SORTS = {
    "name": ("Name", "products.name"),
    "price": ("Price, lowest first", "products.price, products.name"),
    "expensive": ("Price, highest first", "products.price DESC, products.name"),
    "rating": ("Rating, best first", "rating DESC, products.name"),
}
RATED = """
SELECT products.*, categories.name AS category, count(reviews.id) AS reviews,
    round(coalesce(avg(reviews.rating), 0), 1) AS rating
FROM products JOIN categories ON categories.id = category_id LEFT JOIN reviews ON reviews.product_id = products.id
"""


@site.get("/")
def home(request: Request) -> Page:
    """Display the categories."""
    rows = request.db.rows(
        "SELECT categories.*, count(products.id) AS products FROM categories"
        " LEFT JOIN products ON category_id = categories.id GROUP BY categories.id ORDER BY categories.name"
    )
    items = [
        join(link(row["name"], f"/category/{row['id']}"), f" ({count_of(row['products'], 'product')})") for row in rows
    ]
    search = form("/search", field("Search for", "text", kind="search"), button("Go"), method="get")
    return Page("Corner Shop", join(search, tag("h2", "Categories"), bullets(items)))


@site.get("/category/{}")
def category(request: Request, category_id: int) -> Page:
    """Display the products of a category."""
    row = request.one("SELECT * FROM categories WHERE id = ?", category_id)
    chosen = request.query.text("sort", "name")
    controls = form(request.path, _sort(chosen), button("Sort"), method="get")
    return Page(row["name"], join(controls, _list(request, "category_id = ?", [category_id], chosen)))


@site.get("/search")
def search(request: Request) -> Page:
    """Display the search form with its results."""
    asked = request.query
    groups = request.db.rows("SELECT * FROM categories ORDER BY name")
    brands = request.db.rows("SELECT DISTINCT brand FROM products ORDER BY brand")
    controls = form(
        "/search",
        field("Search for", "text", asked.text("text"), "search"),
        select(
            "Category", "category", [("", "Any"), *((row["id"], row["name"]) for row in groups)], asked.text("category")
        ),
        select("Brand", "brand", [("", "Any"), *((row["brand"], row["brand"]) for row in brands)], asked.text("brand")),
        field("Lowest price in dollars", "least", asked.text("least"), "number"),
        field("Highest price in dollars", "most", asked.text("most"), "number"),
        select("Rating of at least", "rating", [("", "Any"), *((n, str(n)) for n in (2, 3, 4))], asked.text("rating")),
        select("Stock", "stock", [("", "Any"), ("in", "In stock only")], asked.text("stock")),
        _sort(asked.text("sort", "name")),
        tag("p", button("Search")),
        method="get",
    )
    where, values = _filters(request)
    return Page(
        "Search", join(controls, tag("h2", "Results"), _list(request, where, values, asked.text("sort", "name")))
    )


def _filters(request: Request) -> tuple[str, list[object]]:
    asked = request.query
    where, values = ["1"], list[object]()
    for word in asked.text("text").lower().split():
        where.append("instr(lower(products.name || ' ' || brand || ' ' || description), ?) > 0")
        values.append(word)
    for name, clause, value in (
        ("category", "category_id = ?", asked.number("category")),
        ("brand", "brand = ?", asked.text("brand")),
        ("least", "price >= 100 * ?", asked.number("least")),
        ("most", "price <= 100 * ?", asked.number("most")),
    ):
        if asked.text(name) and value is not None:
            where.append(clause)
            values.append(value)
    if asked.text("stock") == "in":
        where.append("stock > 0")
    rating = asked.number("rating")
    if rating is not None:
        where.append("(SELECT avg(rating) FROM reviews WHERE product_id = products.id) >= ?")
        values.append(rating)
    return " AND ".join(where), values


def _sort(chosen: str) -> Html:
    return select("Sort by", "sort", [(key, text) for key, (text, _) in SORTS.items()], chosen)


def _list(request: Request, where: str, values: list[object], sort: str) -> Html:
    order = SORTS.get(sort, SORTS["name"])[1]
    count = request.db.value(f"SELECT count(*) FROM products WHERE {where}", *values)
    skip, pages = paged(request, count)
    rows = request.db.rows(
        f"{RATED} WHERE {where} GROUP BY products.id ORDER BY {order} LIMIT 10 OFFSET ?", *values, skip
    )
    cells = [
        (link(row["name"], f"/product/{row['id']}"), row["brand"], money(row["price"]), _rating(row), _stock(row))
        for row in rows
    ]
    return join(table("Products", ("Product", "Brand", "Price", "Rating", "Stock"), cells), pages)


def _rating(row: Row) -> str:
    return f"{row['rating']} of 5 ({count_of(row['reviews'], 'review')})" if row["reviews"] else "no reviews"


def _stock(row: Row) -> str:
    return f"{row['stock']} in stock" if row["stock"] else "out of stock"


@site.get("/product/{}")
def product(request: Request, product_id: int) -> Page:
    """Display a product."""
    return product_page(request, product_id)


def product_page(request: Request, product_id: int, errors: tuple[str, ...] = ()) -> Page:
    """Return the page of a product: facts, the form to buy it with its errors, and reviews."""
    row = request.one(f"{RATED} WHERE products.id = ? GROUP BY products.id", product_id)
    user = request.user()
    body = join(
        facts(
            [
                ("Category", link(row["category"], f"/category/{row['category_id']}")),
                ("Brand", row["brand"]),
                ("Price", money(row["price"])),
                ("Rating", _rating(row)),
                ("Stock", _stock(row)),
            ]
        ),
        paragraphs(row["description"]),
        _buy(row),
        press("Add to wish list", f"/product/{product_id}/wish") if user else None,
        tag("h2", "Reviews"),
        tag("p", link("Write a review", f"/product/{product_id}/review")),
        _reviews(request, product_id, user["id"] if user else None),
    )
    return Page(row["name"], body, errors)


def _buy(row: Row) -> Html:
    def options(text: str) -> list[tuple[str, str]]:
        return [("", "Choose"), *((each, each) for each in text.split(","))]

    return form(
        f"/product/{row['id']}/cart",
        select("Color", "color", options(row["colors"])) if row["colors"] else hidden_field("color", ""),
        select("Size", "size", options(row["sizes"])) if row["sizes"] else hidden_field("size", ""),
        field("Quantity", "quantity", 1, "number"),
        button("Add to cart"),
    )


def _reviews(request: Request, product_id: int, user_id: int | None) -> Html:
    count = request.db.value("SELECT count(*) FROM reviews WHERE product_id = ?", product_id)
    skip, pages = paged(request, count)
    rows = request.db.rows(
        "SELECT reviews.*, users.name FROM reviews JOIN users ON users.id = user_id WHERE product_id = ?"
        " ORDER BY date DESC, reviews.id DESC LIMIT 10 OFFSET ?",
        product_id,
        skip,
    )
    if not rows:
        return tag("p", "No reviews yet.")

    def shown(row: Row) -> Html:
        own = None
        if row["user_id"] == user_id:
            edit = link(f"Edit review {row['title']}", f"/review/{row['id']}")
            own = tag("p", edit, " ", link(f"Delete review {row['title']}", f"/review/{row['id']}/delete"))
        rating = tag("p", f"{row['rating']} of 5, by {row['name']}, {row['date']}")
        return tag("article", tag("h3", row["title"]), rating, paragraphs(row["text"]), own)

    return join([shown(row) for row in rows], pages)


def choice_of_rating(chosen: object = "") -> Html:
    """Return radio buttons for one to five stars."""
    return choice("Rating", "rating", [(n, count_of(n, "star")) for n in range(1, 6)], chosen)
