"""The history of an article: list, display and restore revisions, which are numbered from 1."""

from ..changes import revise
from ..data import Row
from ..sites import WIKI as site
from ..web import Page, Redirect, Refused, Reply, Request, confirm, paged
from .articles import current, parsed


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
    pages = paged(request, len(rows))
    shown = list(enumerate(rows, 1))[::-1][pages.offset : pages.offset + 10]
    values = {"article_id": article_id, "revisions": shown, "count": len(rows), "pages": pages}
    return Page(f"History of {title}", "articles.history", **values)


def _revision(request: Request, article_id: int, number: int) -> Row:
    rows = _revisions(request, article_id)
    if not 1 <= number <= len(rows):
        raise Refused("This revision does not exist.", 404)
    return rows[number - 1]


@site.get("/article/{}/revision/{}")
def revision(request: Request, article_id: int, number: int) -> Page:
    """Display a revision."""
    title, row = current(request, article_id)["title"], _revision(request, article_id, number)
    content = parsed(request.db, row["text"])
    title = f"{title}, revision {number}"
    return Page(title, "articles.revision", article_id=article_id, revision=row, sections=content)


@site.form("/article/{}/revision/{}/revert")
def revert(request: Request, article_id: int, number: int) -> Reply:
    """Add a revision with the text of an old one, after a confirmation."""
    user, row = request.member(), _revision(request, article_id, number)
    if not request.posted:
        back = f"/article/{article_id}/history"
        return confirm(f"Revert to revision {number}?", "Revert article", request.path, back)
    summary = f"Reverted to revision {number}"
    revise(request.db, request.today, user["id"], article_id, summary, row["text"])
    return Redirect(f"/article/{article_id}", f"{summary}.")
