"""Review pages: write, edit and delete the user's own reviews."""

from ..data import Row
from ..html import area, button, field, form, tag
from ..web import Page, Redirect, Reply, Request, confirm
from .base import site
from .catalog import choice_of_rating


def _form(request: Request, title: str, values: tuple[object, str, str], errors: tuple[str, ...] = ()) -> Page:
    rating, headline, text = values
    body = form(
        request.path,
        choice_of_rating(rating),
        field("Title", "title", headline),
        area("Text", "text", text, 4),
        tag("p", button("Save review")),
    )
    return Page(title, body, errors)


def _read_form(request: Request) -> tuple[tuple[object, str, str], tuple[str, ...]]:
    rating, title, text = request.form.number("rating"), request.form.text("title"), request.form.text("text")
    errors = []
    if rating is None or not 1 <= rating <= 5:
        errors.append("Choose a rating.")
    if not title:
        errors.append("The title must not be empty.")
    return (rating, title, text), tuple(errors)


@site.get("/product/{}/review")
def new(request: Request, product_id: int) -> Page:
    """Display the form for a new review."""
    request.member()
    product = request.one("SELECT * FROM products WHERE id = ?", product_id)
    return _form(request, f"Review of {product['name']}", ("", "", ""))


@site.post("/product/{}/review")
def create(request: Request, product_id: int) -> Reply:
    """Create a review; each user may review a product once."""
    user = request.member()
    product = request.one("SELECT * FROM products WHERE id = ?", product_id)
    values, errors = _read_form(request)
    if request.db.row("SELECT 1 FROM reviews WHERE product_id = ? AND user_id = ?", product_id, user["id"]):
        errors = ("You have already reviewed this product.",)
    if errors:
        return _form(request, f"Review of {product['name']}", values, errors)
    request.db.run(
        "INSERT INTO reviews (product_id, user_id, rating, title, text, date) VALUES (?, ?, ?, ?, ?, ?)",
        *(product_id, user["id"], *values, request.today),
    )
    return Redirect(f"/product/{product_id}", "Your review has been saved.")


def _own(request: Request, review_id: int) -> Row:
    return request.one("SELECT * FROM reviews WHERE id = ? AND user_id = ?", review_id, request.member()["id"])


@site.get("/review/{}")
def edit(request: Request, review_id: int) -> Page:
    """Display the edit form of the user's review."""
    row = _own(request, review_id)
    return _form(request, "Edit your review", (row["rating"], row["title"], row["text"]))


@site.post("/review/{}")
def save(request: Request, review_id: int) -> Reply:
    """Save a review."""
    row = _own(request, review_id)
    values, errors = _read_form(request)
    if errors:
        return _form(request, "Edit your review", values, errors)
    request.db.run("UPDATE reviews SET rating = ?, title = ?, text = ? WHERE id = ?", *values, review_id)
    return Redirect(f"/product/{row['product_id']}", "Your review has been saved.")


@site.get("/review/{}/delete")
def ask_delete(request: Request, review_id: int) -> Page:
    """Display the confirmation page."""
    row = _own(request, review_id)
    return confirm(f"Delete the review {row['title']}?", "Delete review", request.path, f"/product/{row['product_id']}")


@site.post("/review/{}/delete")
def delete(request: Request, review_id: int) -> Reply:
    """Delete a review."""
    row = _own(request, review_id)
    request.db.run("DELETE FROM reviews WHERE id = ?", review_id)
    return Redirect(f"/product/{row['product_id']}", "Your review has been deleted.")
