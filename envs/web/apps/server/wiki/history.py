"""The history of an article: list, display and restore revisions, which are numbered from 1."""

from ..data import Row
from ..html import join, link, table, tag
from ..web import Page, Redirect, Refused, Reply, Request, confirm, paged
from .articles import current
from .base import site
from .editing import add_revision
from .text import render


def _revisions(request: Request, article_id: int) -> list[Row]:
    return request.db.rows(
        "SELECT revisions.*, users.name FROM revisions JOIN users ON users.id = user_id WHERE article_id = ?"
        " ORDER BY revisions.id",
        article_id,
    )


@site.get("/article/{}/history")
def history(request: Request, article_id: int) -> Page:
    """Display all revisions, newest first."""
    title, rows = current(request, article_id)["title"], _revisions(request, article_id)
    skip, pages = paged(request, len(rows))
    path = f"/article/{article_id}/revision"
    cells = [
        (
            link(f"Revision {number}", f"{path}/{number}"),
            *(row["date"], row["name"], row["summary"]),
            link(f"Revert to revision {number}", f"{path}/{number}/revert") if number < len(rows) else "current",
        )
        for number, row in list(enumerate(rows, 1))[::-1][skip : skip + 10]
    ]
    body = table("Revisions", ("Revision", "Date", "Author", "Summary", "Revert"), cells)
    return Page(
        f"History of {title}", join(tag("p", link("Back to the article", f"/article/{article_id}")), body, pages)
    )


def _revision(request: Request, article_id: int, number: int) -> Row:
    rows = _revisions(request, article_id)
    if not 1 <= number <= len(rows):
        raise Refused("This revision does not exist.", 404)
    return rows[number - 1]


@site.get("/article/{}/revision/{}")
def revision(request: Request, article_id: int, number: int) -> Page:
    """Display a revision."""
    title, row = current(request, article_id)["title"], _revision(request, article_id, number)
    origin = tag("p", f"By {row['name']}, {row['date']}: {row['summary']}")
    back = tag("p", link("Back to the history", f"/article/{article_id}/history"))
    return Page(f"{title}, revision {number}", join(origin, back, render(request.db, row["text"])))


@site.get("/article/{}/revision/{}/revert")
def ask_revert(request: Request, article_id: int, number: int) -> Page:
    """Display the confirmation page."""
    request.member()
    _revision(request, article_id, number)
    return confirm(f"Revert to revision {number}?", "Revert article", request.path, f"/article/{article_id}/history")


@site.post("/article/{}/revision/{}/revert")
def revert(request: Request, article_id: int, number: int) -> Reply:
    """Add a revision with the text of an old one."""
    request.member()
    text = _revision(request, article_id, number)["text"]
    add_revision(request, article_id, f"Reverted to revision {number}", text)
    return Redirect(f"/article/{article_id}", f"Reverted to revision {number}.")
