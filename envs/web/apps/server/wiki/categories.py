"""The categories and the talk page of an article."""

from ..html import area, button, form, join, link, paragraphs, tag, tick
from ..web import Page, Redirect, Reply, Request
from .articles import current
from .base import site


@site.get("/article/{}/categories")
def choose(request: Request, article_id: int) -> Page:
    """Display a checkbox for each category."""
    request.member()
    title = current(request, article_id)["title"]
    rows = request.db.rows(
        "SELECT categories.*, id IN (SELECT category_id FROM article_categories WHERE article_id = ?) AS ticked"
        " FROM categories ORDER BY name",
        article_id,
    )
    ticks = [tag("div", tick(row["name"], "category", bool(row["ticked"]), row["id"])) for row in rows]
    body = form(request.path, tag("fieldset", tag("legend", "Categories"), ticks), button("Save categories"))
    return Page(f"Categories of {title}", body)


@site.post("/article/{}/categories")
def save(request: Request, article_id: int) -> Reply:
    """Save the categories."""
    request.member()
    current(request, article_id)
    request.db.run("DELETE FROM article_categories WHERE article_id = ?", article_id)
    for number in request.form.numbers("category"):
        if request.db.row("SELECT 1 FROM categories WHERE id = ?", number):
            request.db.run("INSERT INTO article_categories VALUES (?, ?)", article_id, number)
    return Redirect(f"/article/{article_id}", "The categories have been saved.")


@site.get("/article/{}/talk")
def talk(request: Request, article_id: int) -> Page:
    """Display the talk page of an article."""
    return _talk_page(request, article_id)


def _talk_page(request: Request, article_id: int, errors: tuple[str, ...] = ()) -> Page:
    title = current(request, article_id)["title"]
    rows = request.db.rows(
        "SELECT talk.*, users.name FROM talk JOIN users ON users.id = user_id WHERE article_id = ? ORDER BY talk.id",
        article_id,
    )
    remarks = [
        tag("article", tag("h2", f"Remark {number} by {row['name']}, {row['date']}"), paragraphs(row["text"]))
        for number, row in enumerate(rows, 1)
    ]
    new = form(f"/article/{article_id}/talk", area("Your remark", "text", "", 4), button("Add remark"))
    return Page(
        f"Talk about {title}",
        join(tag("p", link("Back to the article", f"/article/{article_id}")), remarks, new),
        errors,
    )


@site.post("/article/{}/talk")
def add_remark(request: Request, article_id: int) -> Reply:
    """Add a remark to the talk page."""
    user, text = request.member(), request.form.text("text")
    current(request, article_id)
    if not text:
        return _talk_page(request, article_id, ("The remark must not be empty.",))
    request.db.run(
        "INSERT INTO talk (article_id, user_id, date, text) VALUES (?, ?, ?, ?)",
        *(article_id, user["id"], request.today, text),
    )
    return Redirect(f"/article/{article_id}/talk", "Your remark has been added.")
