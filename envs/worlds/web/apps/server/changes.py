"""The changes that take more than one row; the handlers make them, and the tasks expect them.

``Tables`` is the database of a server, or the expected state of a task.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .choices import DELIVERY, Row

ADDRESS = ("recipient", "street", "city", "postcode")


class Tables(Protocol):
    """Tables of rows that can be changed."""

    def find(self, table: str, /, **where: Any) -> Sequence[Row]:
        """Return the rows with these values."""

    def add(self, table: str, /, **row: Any) -> int:
        """Add a row and return its id."""

    def edit(self, table: str, where: Mapping[str, Any], /, **values: Any) -> Any:
        """Set values in every row that matches ``where``."""

    def remove(self, table: str, /, **where: Any) -> Any:
        """Remove every row with these values."""


@dataclass(frozen=True)
class Bill:
    """The amounts of a cart, in cents. Each line has the name, the price and the stock of its product."""

    lines: Sequence[Row]
    subtotal: int
    coupon: str
    discount: int

    def total(self, delivery: str) -> int:
        """Return the amount to pay with a delivery method."""
        return self.subtotal - self.discount + DELIVERY[delivery][1]


def bill(tables: Tables, user_id: int) -> Bill:
    """Return the bill of a user's cart, without delivery. A coupon applies to subtotals of at least its minimum."""
    lines = []
    for line in tables.find("cart_lines", user_id=user_id):
        (product,) = tables.find("products", id=line["product_id"])
        lines.append({**line, **{name: product[name] for name in ("name", "price", "stock")}})
    lines.sort(key=lambda line: (line["name"], line["color"], line["size"]))
    subtotal = sum(line["price"] * line["quantity"] for line in lines)
    for held in tables.find("cart_coupons", user_id=user_id):
        (coupon,) = tables.find("coupons", code=held["code"])
        if subtotal >= coupon["minimum"]:
            return Bill(lines, subtotal, coupon["code"], subtotal * coupon["percent"] // 100)
    return Bill(lines, subtotal, "", 0)


def put_in_cart(tables: Tables, quantity: int, **line: Any) -> None:
    """Add a line to a cart, or its quantity to the same line of the cart."""
    for held in tables.find("cart_lines", **line):
        tables.edit("cart_lines", line, quantity=held["quantity"] + quantity)
        return
    tables.add("cart_lines", **line, quantity=quantity)


def place_order(tables: Tables, today: str, user_id: int, address: Row, delivery: str, note: str) -> int:
    """Order the cart of a user: create the order, reduce the stock and empty the cart. Return the id of the order."""
    due = bill(tables, user_id)
    order_id = tables.add(
        "orders",
        **{"user_id": user_id, "date": today, "status": "placed", **{part: address[part] for part in ADDRESS}},
        **{"delivery": delivery, "coupon": due.coupon, "note": note, "total": due.total(delivery)},
    )
    for line in due.lines:
        bought = {name: line[name] for name in ("product_id", "color", "size", "quantity", "price")}
        tables.add("order_lines", order_id=order_id, **bought)
        _restock(tables, line["product_id"], -line["quantity"])
    tables.remove("cart_lines", user_id=user_id)
    tables.remove("cart_coupons", user_id=user_id)
    return order_id


def cancel_order(tables: Tables, order_id: int) -> None:
    """Cancel an order and restore the stock."""
    for line in tables.find("order_lines", order_id=order_id):
        _restock(tables, line["product_id"], line["quantity"])
    tables.edit("orders", {"id": order_id}, status="cancelled")


def _restock(tables: Tables, product_id: int, quantity: int) -> None:
    (product,) = tables.find("products", id=product_id)
    tables.edit("products", {"id": product_id}, stock=product["stock"] + quantity)


def create_issue(tables: Tables, today: str, author_id: int, labels: Iterable[int], **values: Any) -> int:
    """Create an open issue and return its id."""
    origin = {"author_id": author_id, "state": "open", "duplicate_of": None, "created": today}
    issue_id = tables.add("issues", **values, **origin)
    set_labels(tables, issue_id, labels)
    return issue_id


def set_labels(tables: Tables, issue_id: int, labels: Iterable[int]) -> None:
    """Replace the labels of an issue."""
    tables.remove("issue_labels", issue_id=issue_id)
    for label_id in labels:
        tables.add("issue_labels", issue_id=issue_id, label_id=label_id)


def delete_issue(tables: Tables, issue_id: int) -> None:
    """Delete an issue with its comments, and clear it in its duplicates."""
    tables.edit("issues", {"duplicate_of": issue_id}, duplicate_of=None)
    tables.remove("comments", issue_id=issue_id)
    tables.remove("issue_labels", issue_id=issue_id)
    tables.remove("issues", id=issue_id)


def publish(tables: Tables, today: str, user_id: int, title: str, text: str, category_id: int | None) -> int:
    """Create an article with its first revision, and return its id."""
    article_id = tables.add("articles", title=title)
    revise(tables, today, user_id, article_id, "New article", text)
    if category_id is not None:
        tables.add("article_categories", article_id=article_id, category_id=category_id)
    return article_id


def revise(tables: Tables, today: str, user_id: int, article_id: int, summary: str, text: str) -> None:
    """Add a text as the newest revision of an article."""
    tables.add("revisions", article_id=article_id, user_id=user_id, date=today, summary=summary, text=text)


def start_thread(tables: Tables, today: str, user_id: int, board_id: int, title: str, text: str) -> int:
    """Start a thread with its first post, and return its id."""
    thread_id = tables.add("threads", board_id=board_id, title=title, pinned=0, locked=0)
    tables.add("posts", thread_id=thread_id, user_id=user_id, date=today, text=text)
    return thread_id
