"""Create an article in three steps: title and category, text, preview."""

from typing import Any

from ..html import area, button, facts, field, form, join, link, press, select, tag
from ..web import Page, Redirect, Reply, Request
from .base import site
from .editing import add_revision
from .text import normalize, render


def _draft(request: Request) -> dict[str, Any]:
    request.member()
    return request.session.drafts.setdefault("article", {})


@site.get("/new")
def choose_title(request: Request) -> Page:
    """Display step 1."""
    draft = _draft(request)
    return _title_page(request, draft.get("title", ""), draft.get("category"))


def _title_page(request: Request, title: str, category: int | None, errors: tuple[str, ...] = ()) -> Page:
    rows = request.db.rows("SELECT * FROM categories ORDER BY name")
    options = [("", "None"), *((row["id"], row["name"]) for row in rows)]
    body = form(
        "/new",
        field("Title", "title", title),
        select("Category", "category", options, category),
        button("Continue to text"),
    )
    return Page("New article, step 1 of 3: title", body, errors)


@site.post("/new")
def keep_title(request: Request) -> Reply:
    """Store title and category in the draft."""
    draft, title, category = _draft(request), request.form.text("title"), request.form.number("category")
    if not title:
        return _title_page(request, title, category, ("The title must not be empty.",))
    if request.db.row("SELECT 1 FROM articles WHERE title = ?", title):
        return _title_page(request, title, category, ("An article with this title already exists.",))
    known = request.db.row("SELECT 1 FROM categories WHERE id = ?", category)
    draft.update(title=title, category=category if known else None)
    return Redirect("/new/text")


@site.get("/new/text")
def write_text(request: Request) -> Reply:
    """Display step 2."""
    draft = _draft(request)
    return _text_page(draft.get("text", "")) if "title" in draft else Redirect("/new")


def _text_page(text: str, errors: tuple[str, ...] = ()) -> Page:
    note = tag("p", "Write a heading as == History == and a link to an article as its title in double brackets.")
    body = form("/new/text", area("Text", "text", text, 14), button("Continue to preview"))
    return Page("New article, step 2 of 3: text", join(note, body), errors)


@site.post("/new/text")
def keep_text(request: Request) -> Reply:
    """Store the text in the draft."""
    draft, text = _draft(request), normalize(request.form.text("text"))
    if not text:
        return _text_page(text, ("The text must not be empty.",))
    draft["text"] = text
    return Redirect("/new/preview")


@site.get("/new/preview")
def preview(request: Request) -> Reply:
    """Display step 3."""
    draft = _draft(request)
    if "title" not in draft or "text" not in draft:
        return Redirect("/new")
    category = request.db.value("SELECT name FROM categories WHERE id = ?", draft["category"])
    summary = facts([("Title", draft["title"]), ("Category", category or "none")])
    back = tag("p", link("Back to text", "/new/text"))
    body = join(summary, render(request.db, draft["text"]), press("Publish", "/new/publish"), back)
    return Page("New article, step 3 of 3: preview", body)


@site.post("/new/publish")
def publish(request: Request) -> Reply:
    """Create the article."""
    request.member()
    draft = request.session.drafts.pop("article", {})
    if "title" not in draft or "text" not in draft:
        return Redirect("/new")
    if request.db.row("SELECT 1 FROM articles WHERE title = ?", draft["title"]):
        return Redirect("/new", "An article with this title already exists.")
    number = request.db.run("INSERT INTO articles (title) VALUES (?)", draft["title"])
    add_revision(request, number, "New article", draft["text"])
    if draft["category"] is not None:
        request.db.run("INSERT INTO article_categories VALUES (?, ?)", number, draft["category"])
    return Redirect(f"/article/{number}", f"The article {draft['title']} has been published.")
