"""User pages, and the user's own profile."""

from ..choices import NOTIFICATIONS
from ..html import area, button, facts, field, form, join, link, select, tag, tick
from ..web import Page, Redirect, Reply, Request
from .base import article_link, site


@site.get("/users/{}")
def person(request: Request, user_id: int) -> Page:
    """Display a user."""
    row = request.one("SELECT * FROM users WHERE id = ?", user_id)
    articles = request.db.rows(
        "SELECT DISTINCT articles.* FROM revisions JOIN articles ON articles.id = article_id WHERE user_id = ?"
        " ORDER BY title LIMIT 10",
        user_id,
    )
    posts = request.db.value("SELECT count(*) FROM posts WHERE user_id = ?", user_id)
    body = join(
        facts(
            [
                ("User name", row["login"]),
                ("Role", row["role"]),
                ("E-mail", row["email"] if row["show_email"] else "not shown"),
                ("About", row["about"] or "not provided"),
                ("Forum posts", posts),
            ]
        ),
        tag("p", link(f"Send a message to {row['name']}", f"/messages/new?to={row['login']}")),
        tag("h2", "Articles"),
        [tag("p", article_link(each)) for each in articles],
    )
    return Page(row["name"], body)


@site.get("/profile")
def profile(request: Request) -> Page:
    """Display the edit form of the user's profile."""
    user = request.member()
    return _form(user["name"], user["about"], bool(user["show_email"]), user["notify"])


def _form(name: str, about: str, show_email: bool, notify: str, errors: tuple[str, ...] = ()) -> Page:
    body = form(
        "/profile",
        field("Name", "name", name),
        area("About me", "about", about, 3),
        tag("p", tick("Show my e-mail address", "show_email", show_email)),
        select("Notify me about", "notify", NOTIFICATIONS.items(), notify),
        tag("p", button("Save profile")),
    )
    return Page("Profile", body, errors)


@site.post("/profile")
def save(request: Request) -> Reply:
    """Save the profile."""
    user, asked = request.member(), request.form
    name, about, notify = asked.text("name"), asked.text("about"), asked.text("notify")
    show_email = asked.text("show_email") == "1"
    if not name or notify not in NOTIFICATIONS:
        return _form(name, about, show_email, notify, ("The name must not be empty.",))
    request.db.run(
        "UPDATE users SET name = ?, about = ?, show_email = ?, notify = ? WHERE id = ?",
        *(name, about, int(show_email), notify, user["id"]),
    )
    return Redirect("/profile", "Your profile has been saved.")
