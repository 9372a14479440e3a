"""Review pages: write, edit and delete the user's own reviews."""

from typing import Any

from ..choices import count_of
from ..sites import SHOP as site
from ..web import Page, Redirect, Reply, Request, confirm

STARS = [(number, count_of(number, "star")) for number in range(1, 6)]


@site.form("/product/{}/review")
def new(request: Request, product_id: int) -> Reply:
    """Create a review; each user may review a product once."""
    user, product = request.member(), request.find("products", id=product_id)
    values = {"product_id": product_id, "user_id": user["id"], "date": request.today}
    taken = request.db.find("reviews", product_id=product_id, user_id=user["id"])
    errors = ["You have already reviewed this product."] if taken else []
    return _form(request, f"Review of {product['name']}", {**values, "rating": "", "title": "", "text": ""}, errors)


@site.form("/review/{}")
def edit(request: Request, review_id: int) -> Reply:
    """Display the edit form of the user's review, and save it."""
    row = request.find("reviews", id=review_id, user_id=request.member()["id"])
    return _form(request, "Edit your review", dict(row), [])


def _form(request: Request, title: str, values: dict[str, Any], errors: list[str]) -> Reply:
    if request.posted:
        values |= {"rating": request.form.number("rating"), **request.form.texts("title", "text")}
        found = [] if values["rating"] in range(1, 6) else ["Choose a rating."]
        found += [] if values["title"] else ["The title must not be empty."]
        errors = errors or found
        if not errors:
            if "id" in values:
                request.db.edit("reviews", {"id": values["id"]}, **values)
            else:
                request.db.add("reviews", **values)
            return Redirect(f"/product/{values['product_id']}", "Your review has been saved.")
    return Page(
        title, "account.review", errors if request.posted else (), path=request.path, values=values, stars=STARS
    )


@site.form("/review/{}/delete")
def delete(request: Request, review_id: int) -> Reply:
    """Delete a review after a confirmation."""
    row = request.find("reviews", id=review_id, user_id=request.member()["id"])
    back = f"/product/{row['product_id']}"
    if not request.posted:
        return confirm(f"Delete the review {row['title']}?", "Delete review", request.path, back)
    request.db.remove("reviews", id=review_id)
    return Redirect(back, "Your review has been deleted.")
