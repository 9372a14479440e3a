"""The settings of the user."""

from ..html import button, choice, field, form, tag, tick
from ..web import Page, Redirect, Reply, Request
from .base import site

DIGESTS = {"daily": "Every day", "weekly": "Every week", "never": "Never"}


@site.get("/settings")
def settings(request: Request) -> Page:
    """The form."""
    user = request.member()
    return _form(user["name"], user["email"], user["digest"], bool(user["mentions"]))


def _form(name: str, email: str, digest: str, mentions: bool, errors: tuple[str, ...] = ()) -> Page:
    body = form(
        "/settings",
        field("Name", "name", name),
        field("E-mail", "email", email),
        choice("Send me a digest", "digest", DIGESTS.items(), digest),
        tag("p", tick("Tell me when I am mentioned", "mentions", mentions)),
        tag("p", button("Save settings")),
    )
    return Page("Settings", body, errors)


@site.post("/settings")
def save(request: Request) -> Reply:
    """Change the settings."""
    user, asked = request.member(), request.form
    name, email, digest = asked.text("name"), asked.text("email"), asked.text("digest")
    mentions = asked.text("mentions") == "1"
    errors = [] if name else ["The name must not be empty."]
    if "@" not in email:
        errors.append("This is not an e-mail address.")
    if digest not in DIGESTS:
        errors.append("Choose a digest.")
    if errors:
        return _form(name, email, digest, mentions, tuple(errors))
    request.db.run(
        "UPDATE users SET name = ?, email = ?, digest = ?, mentions = ? WHERE id = ?",
        *(name, email, digest, int(mentions), user["id"]),
    )
    return Redirect("/settings", "Your settings are saved.")
