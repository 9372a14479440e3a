"""Account pages: settings, address book, wish list, and the user's own reviews."""

from typing import Any

from ..choices import CONTACTS, count_of
from ..sites import SHOP as site
from ..web import Page, Redirect, Reply, Request, confirm

ADDRESS_FIELDS = {
    "label": "Label",
    "recipient": "Recipient",
    "street": "Street",
    "city": "City",
    "postcode": "Postcode",
}


@site.form("/account")
def account(request: Request) -> Reply:
    """Display and save the settings."""
    user, errors = request.member(), []
    values = dict(user)
    if request.posted:
        values |= request.form.texts("name", "email", "contact")
        values["newsletter"] = request.form.ticked("newsletter")
        errors = [] if values["name"] else ["The name must not be empty."]
        if "@" not in values["email"]:
            errors.append("Enter a valid e-mail address.")
        if not errors and values["contact"] not in CONTACTS:
            errors = ["Choose a contact method."]
        if not errors:
            request.db.save("users", values)
            return Redirect("/account", "Your settings have been saved.")
    return Page("Account", "account.account", errors, user=user, values=values, contacts=list(CONTACTS.items()))


@site.get("/addresses")
def addresses(request: Request) -> Page:
    """Display the address book."""
    rows = request.db.rows("SELECT * FROM addresses WHERE user_id = ? ORDER BY id", request.member()["id"])
    return Page("Address book", "account.addresses", addresses=rows)


@site.form("/addresses/new")
def new_address(request: Request) -> Reply:
    """Add an address."""
    values = {"user_id": request.member()["id"], **dict.fromkeys(ADDRESS_FIELDS, "")}
    return _address_form(request, "New address", values)


@site.form("/addresses/{}")
def edit_address(request: Request, address_id: int) -> Reply:
    """Display the edit form of an address, and save it."""
    row = request.find("addresses", id=address_id, user_id=request.member()["id"])
    return _address_form(request, f"Edit address {row['label']}", dict(row))


def _address_form(request: Request, title: str, values: dict[str, Any]) -> Reply:
    errors = []
    if request.posted:
        values |= request.form.texts(*ADDRESS_FIELDS)
        errors = [f"{text} must not be empty." for name, text in ADDRESS_FIELDS.items() if not values[name]]
        if not errors:
            request.db.save("addresses", values)
            return Redirect("/addresses", f"The address {values['label']} has been saved.")
    return Page(title, "account.address", errors, path=request.path, fields=ADDRESS_FIELDS, values=values)


@site.form("/addresses/{}/delete")
def delete_address(request: Request, address_id: int) -> Reply:
    """Delete an address after a confirmation."""
    row = request.find("addresses", id=address_id, user_id=request.member()["id"])
    if not request.posted:
        return confirm(f"Delete the address {row['label']}?", "Delete address", request.path, "/addresses")
    request.db.remove("addresses", id=address_id)
    return Redirect("/addresses", f"The address {row['label']} has been deleted.")


@site.get("/wishes")
def wishes(request: Request) -> Page:
    """Display the wish list."""
    rows = request.db.rows(
        "SELECT products.* FROM wishes JOIN products ON products.id = product_id WHERE user_id = ? ORDER BY name",
        request.member()["id"],
    )
    return Page("Wish list", "account.wishes", products=rows)


@site.post("/product/{}/wish")
def wish(request: Request, product_id: int) -> Reply:
    """Add a product to the wish list."""
    user, row = request.member(), request.find("products", id=product_id)
    request.db.link("wishes", user_id=user["id"], product_id=product_id)
    return Redirect(f"/product/{product_id}", f"{row['name']} has been added to your wish list.")


@site.post("/wishes/{}/remove")
def unwish(request: Request, product_id: int) -> Reply:
    """Remove a product from the wish list."""
    request.db.remove("wishes", user_id=request.member()["id"], product_id=product_id)
    return Redirect("/wishes", "The product has been removed from your wish list.")


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
            request.db.save("reviews", values)
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
