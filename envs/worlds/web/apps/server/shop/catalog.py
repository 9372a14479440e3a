"""Catalog pages: home, categories, search and products."""

from typing import Any

from ..data import Row
from ..sites import SHOP as site
from ..web import Filters, Page, Request, listed

SORTS = {
    "name": ("Name", "products.name"),
    "price": ("Price, lowest first", "products.price, products.name"),
    "expensive": ("Price, highest first", "products.price DESC, products.name"),
    "rating": ("Rating, best first", "rating DESC, products.name"),
}
SORT_NAMES = [(key, text) for key, (text, _) in SORTS.items()]
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
    return Page("Corner Shop", "catalog.home", categories=rows)


@site.get("/category/{}")
def category(request: Request, category_id: int) -> Page:
    """Display the products of a category."""
    row = request.find("categories", id=category_id)
    found = _found(request, "category_id = ?", [category_id])
    return Page(row["name"], "catalog.category", path=request.path, **found)


@site.get("/search")
def search(request: Request) -> Page:
    """Display the search form with its results."""
    filters = Filters(request.query, "products.name || ' ' || brand || ' ' || description")
    filters.number("category", "category_id = ?")
    filters.text("brand", "brand = ?")
    filters.number("least", "price >= 100 * ?")
    filters.number("most", "price <= 100 * ?")
    if request.query.text("stock") == "in":
        filters.add("stock > 0")
    filters.number("rating", "(SELECT avg(rating) FROM reviews WHERE product_id = products.id) >= ?")
    return Page(
        "Search",
        "catalog.search",
        query=request.query,
        categories=request.db.rows("SELECT id, name FROM categories ORDER BY name"),
        brands=request.db.rows("SELECT DISTINCT brand, brand FROM products ORDER BY brand"),
        **_found(request, filters.where, filters.values),
    )


def _found(request: Request, where: str, values: list[Any]) -> dict[str, Any]:
    """Return the page of the matching products, for the templates."""
    sort = request.query.text("sort", "name")
    order = SORTS.get(sort, SORTS["name"])[1]
    rows, pages = listed(request, f"{RATED} WHERE {where} GROUP BY products.id ORDER BY {order}", *values)
    return {"sort": sort, "sorts": SORT_NAMES, "products": rows, "pages": pages}


@site.get("/product/{}")
def product(request: Request, product_id: int) -> Page:
    """Display a product."""
    return product_page(request, product_id)


def product_page(request: Request, product_id: int, errors: list[str] | None = None) -> Page:
    """Return the page of a product: facts, the form to buy it with its errors, and reviews."""
    row = request.one(f"{RATED} WHERE products.id = ? GROUP BY products.id", product_id)
    user = request.user()
    reviews, pages = listed(
        request,
        "SELECT reviews.*, users.name FROM reviews JOIN users ON users.id = user_id WHERE product_id = ?"
        " ORDER BY date DESC, reviews.id DESC",
        product_id,
    )
    values: dict[str, Any] = {"product": row, "user": user, "reviews": reviews, "pages": pages}
    return Page(row["name"], "catalog.product", errors or (), options=_options(row), **values)


def _options(product: Row) -> dict[str, list[tuple[str, str]]]:
    """Return the choices of a product's color and size; an empty list if it has none."""
    return {
        name: [(each, each) for each in product[f"{name}s"].split(",") if product[f"{name}s"]]
        for name in ("color", "size")
    }
