"""Account pages: settings, address book and wish list."""

from ..choices import CONTACTS
from ..data import Row
from ..html import button, facts, field, form, join, link, press, select, table, tag, tick
from ..web import Page, Redirect, Reply, Request, confirm
from .base import money, site

ADDRESS_FIELDS = {
    "label": "Label",
    "recipient": "Recipient",
    "street": "Street",
    "city": "City",
    "postcode": "Postcode",
}


@site.get("/account")
def account(request: Request) -> Page:
    """Display the settings."""
    user = request.member()
    return _account_page(request, user["name"], user["email"], bool(user["newsletter"]), user["contact"])


def _account_page(
    request: Request, name: str, email: str, newsletter: bool, contact: str, errors: tuple[str, ...] = ()
) -> Page:
    body = form(
        "/account",
        field("Name", "name", name),
        field("E-mail", "email", email),
        select("Contact me", "contact", CONTACTS.items(), contact),
        tag("p", tick("Send me the newsletter", "newsletter", newsletter)),
        tag("p", button("Save settings")),
    )
    mine = facts([("User name", request.member()["login"]), ("Addresses", link("Address book", "/addresses"))])
    return Page("Account", join(mine, tag("h2", "Settings"), body), errors)


@site.post("/account")
def save_account(request: Request) -> Reply:
    """Save the settings."""
    user, asked = request.member(), request.form
    name, email, contact = asked.text("name"), asked.text("email"), asked.text("contact")
    newsletter = asked.text("newsletter") == "1"
    errors = [] if name else ["The name must not be empty."]
    if "@" not in email:
        errors.append("Enter a valid e-mail address.")
    if errors or contact not in CONTACTS:
        return _account_page(request, name, email, newsletter, contact, tuple(errors or ["Choose a contact method."]))
    request.db.run(
        "UPDATE users SET name = ?, email = ?, newsletter = ?, contact = ? WHERE id = ?",
        *(name, email, int(newsletter), contact, user["id"]),
    )
    return Redirect("/account", "Your settings have been saved.")


@site.get("/addresses")
def addresses(request: Request) -> Page:
    """Display the address book."""
    user = request.member()
    rows = request.db.rows("SELECT * FROM addresses WHERE user_id = ? ORDER BY id", user["id"])
    cells = [
        (
            *(row["label"], row["recipient"], row["street"], f"{row['postcode']} {row['city']}"),
            link(f"Edit {row['label']}", f"/addresses/{row['id']}"),
            link(f"Delete {row['label']}", f"/addresses/{row['id']}/delete"),
        )
        for row in rows
    ]
    body = table("Addresses", ("Label", "Recipient", "Street", "City", "Edit", "Delete"), cells)
    return Page("Address book", join(body, tag("p", link("Add an address", "/addresses/new"))))


def _address_form(title: str, action: str, values: dict[str, str], errors: tuple[str, ...] = ()) -> Page:
    fields = [field(text, name, values.get(name, "")) for name, text in ADDRESS_FIELDS.items()]
    return Page(title, form(action, fields, tag("p", button("Save address"))), errors)


def _read_form(request: Request) -> tuple[dict[str, str], tuple[str, ...]]:
    values = {name: request.form.text(name) for name in ADDRESS_FIELDS}
    return values, tuple(f"{ADDRESS_FIELDS[name]} must not be empty." for name, value in values.items() if not value)


def _own(request: Request, address_id: int) -> Row:
    return request.one("SELECT * FROM addresses WHERE id = ? AND user_id = ?", address_id, request.member()["id"])


@site.get("/addresses/new")
def new_address(request: Request) -> Page:
    """Display the form for a new address."""
    request.member()
    return _address_form("New address", request.path, {})


@site.post("/addresses/new")
def create_address(request: Request) -> Reply:
    """Add an address."""
    user = request.member()
    values, errors = _read_form(request)
    if errors:
        return _address_form("New address", request.path, values, errors)
    request.db.run(
        "INSERT INTO addresses (user_id, label, recipient, street, city, postcode) VALUES (?, ?, ?, ?, ?, ?)",
        *(user["id"], *values.values()),
    )
    return Redirect("/addresses", f"The address {values['label']} has been saved.")


@site.get("/addresses/{}")
def edit_address(request: Request, address_id: int) -> Page:
    """Display the edit form of an address."""
    row = _own(request, address_id)
    return _address_form(f"Edit address {row['label']}", request.path, {name: row[name] for name in ADDRESS_FIELDS})


@site.post("/addresses/{}")
def save_address(request: Request, address_id: int) -> Reply:
    """Save an address."""
    row = _own(request, address_id)
    values, errors = _read_form(request)
    if errors:
        return _address_form(f"Edit address {row['label']}", request.path, values, errors)
    request.db.run(
        "UPDATE addresses SET label = ?, recipient = ?, street = ?, city = ?, postcode = ? WHERE id = ?",
        *(*values.values(), address_id),
    )
    return Redirect("/addresses", f"The address {values['label']} has been saved.")


@site.get("/addresses/{}/delete")
def ask_delete_address(request: Request, address_id: int) -> Page:
    """Display the confirmation page."""
    row = _own(request, address_id)
    return confirm(f"Delete the address {row['label']}?", "Delete address", request.path, "/addresses")


@site.post("/addresses/{}/delete")
def delete_address(request: Request, address_id: int) -> Reply:
    """Delete an address."""
    row = _own(request, address_id)
    request.db.run("DELETE FROM addresses WHERE id = ?", address_id)
    return Redirect("/addresses", f"The address {row['label']} has been deleted.")


@site.get("/wishes")
def wishes(request: Request) -> Page:
    """Display the wish list."""
    rows = request.db.rows(
        "SELECT products.* FROM wishes JOIN products ON products.id = product_id WHERE user_id = ? ORDER BY name",
        request.member()["id"],
    )
    cells = [
        (
            *(link(row["name"], f"/product/{row['id']}"), money(row["price"])),
            press(f"Remove {row['name']}", f"/wishes/{row['id']}/remove"),
        )
        for row in rows
    ]
    return Page("Wish list", table("Wishes", ("Product", "Price", "Remove"), cells))


@site.post("/product/{}/wish")
def wish(request: Request, product_id: int) -> Reply:
    """Add a product to the wish list."""
    user = request.member()
    row = request.one("SELECT * FROM products WHERE id = ?", product_id)
    request.db.run("INSERT OR IGNORE INTO wishes VALUES (?, ?)", user["id"], product_id)
    return Redirect(f"/product/{product_id}", f"{row['name']} has been added to your wish list.")


@site.post("/wishes/{}/remove")
def unwish(request: Request, product_id: int) -> Reply:
    """Remove a product from the wish list."""
    request.db.run("DELETE FROM wishes WHERE user_id = ? AND product_id = ?", request.member()["id"], product_id)
    return Redirect("/wishes", "The product has been removed from your wish list.")
