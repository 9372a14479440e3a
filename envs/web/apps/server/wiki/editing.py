"""Edit an article or one of its sections; rename an article."""

from ..html import area, button, field, form, tag
from ..web import Page, Redirect, Refused, Reply, Request
from .articles import current
from .base import site
from .text import normalize, sections


def add_revision(request: Request, article_id: int, summary: str, text: str) -> None:
    """Add a text as the newest revision."""
    request.db.run(
        "INSERT INTO revisions (article_id, user_id, date, summary, text) VALUES (?, ?, ?, ?, ?)",
        *(article_id, request.member()["id"], request.today, summary, text),
    )


def _form(request: Request, title: str, text: str, summary: str = "", errors: tuple[str, ...] = ()) -> Page:
    body = form(
        request.path, area("Text", "text", text, 14), field("Summary of the change", "summary", summary), button("Save")
    )
    return Page(title, body, errors)


def _saved(request: Request, article_id: int, title: str, before: str, after: str) -> Reply:
    """Save the text of the form, which replaces what lies between ``before`` and ``after``."""
    old, text, summary = current(request, article_id), request.form.text("text"), request.form.text("summary")
    new = normalize("\n".join((before, text, after)))
    errors = [] if new else ["The text must not be empty."]
    if not summary:
        errors.append("Describe the change in the summary.")
    if new == old["text"]:
        errors.append("The text has not changed.")
    if errors:
        return _form(request, title, text, summary, tuple(errors))
    add_revision(request, article_id, summary, new)
    return Redirect(f"/article/{article_id}", "Your change has been saved.")


@site.get("/article/{}/edit")
def edit(request: Request, article_id: int) -> Page:
    """Display the edit form of an article."""
    request.member()
    row = current(request, article_id)
    return _form(request, f"Edit {row['title']}", row["text"])


@site.post("/article/{}/edit")
def save(request: Request, article_id: int) -> Reply:
    """Save an article."""
    request.member()
    return _saved(request, article_id, f"Edit {current(request, article_id)['title']}", "", "")


def _section(request: Request, article_id: int, number: int) -> tuple[str, list[str]]:
    request.member()
    found = sections(current(request, article_id)["text"])
    if number >= len(found):
        raise Refused("This section does not exist.", 404)
    return f"Edit section {found[number][0]}", [text for _, text in found]


@site.get("/article/{}/section/{}")
def edit_section(request: Request, article_id: int, number: int) -> Page:
    """Display the edit form of a section."""
    title, texts = _section(request, article_id, number)
    return _form(request, title, texts[number])


@site.post("/article/{}/section/{}")
def save_section(request: Request, article_id: int, number: int) -> Reply:
    """Save a section."""
    title, texts = _section(request, article_id, number)
    return _saved(request, article_id, title, "\n".join(texts[:number]), "\n".join(texts[number + 1 :]))


@site.get("/article/{}/rename")
def ask_rename(request: Request, article_id: int) -> Page:
    """Display the form for a new title."""
    request.member()
    return _rename_page(request, current(request, article_id)["title"])


def _rename_page(request: Request, title: str, errors: tuple[str, ...] = ()) -> Page:
    note = tag("p", "Links in other articles will not be updated.")
    return Page(
        "Rename",
        tag("div", note, form(request.path, field("New title", "title", title), button("Rename article"))),
        errors,
    )


@site.post("/article/{}/rename")
def rename(request: Request, article_id: int) -> Reply:
    """Rename an article."""
    request.member()
    current(request, article_id)
    title = request.form.text("title")
    if not title:
        return _rename_page(request, title, ("The title must not be empty.",))
    if request.db.row("SELECT 1 FROM articles WHERE title = ?", title):
        return _rename_page(request, title, ("An article with this title already exists.",))
    request.db.run("UPDATE articles SET title = ? WHERE id = ?", title, article_id)
    return Redirect(f"/article/{article_id}", f"The article has been renamed to {title}.")
