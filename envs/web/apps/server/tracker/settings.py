"""The user's settings."""

from ..choices import DIGESTS
from ..html import button, choice, field, form, tag, tick
from ..web import Page, Redirect, Reply, Request
from .base import site


@site.get("/settings")
def settings(request: Request) -> Page:
    """Display the settings."""
    user = request.member()
    return _form(user["name"], user["email"], user["digest"], bool(user["mentions"]))


def _form(name: str, email: str, digest: str, mentions: bool, errors: tuple[str, ...] = ()) -> Page:
    body = form(
        "/settings",
        field("Name", "name", name),
        field("E-mail", "email", email),
        choice("E-mail digest", "digest", DIGESTS.items(), digest),
        tag("p", tick("Notify me when I am mentioned", "mentions", mentions)),
        tag("p", button("Save settings")),
    )
    return Page("Settings", body, errors)


@site.post("/settings")
def save(request: Request) -> Reply:
    """Save the settings."""
    user, asked = request.member(), request.form
    name, email, digest = asked.text("name"), asked.text("email"), asked.text("digest")
    mentions = asked.text("mentions") == "1"
    errors = [] if name else ["The name must not be empty."]
    if "@" not in email:
        errors.append("Enter a valid e-mail address.")
    if digest not in DIGESTS:
        errors.append("Choose a digest.")
    if errors:
        return _form(name, email, digest, mentions, tuple(errors))
    request.db.run(
        "UPDATE users SET name = ?, email = ?, digest = ?, mentions = ? WHERE id = ?",
        *(name, email, digest, int(mentions), user["id"]),
    )
    return Redirect("/settings", "Your settings have been saved.")
