"""Comment pages: add a comment; edit and delete the user's own comments."""

from ..data import Row
from ..html import area, button, form, tag
from ..web import Page, Redirect, Reply, Request, confirm
from .base import site
from .issues import issue_page


@site.post("/issues/{}/comments")
def add(request: Request, issue_id: int) -> Reply:
    """Add a comment to an issue."""
    user = request.member()
    request.one("SELECT 1 FROM issues WHERE id = ?", issue_id)
    text = request.form.text("text")
    if not text:
        return issue_page(request, issue_id, text, ("The comment must not be empty.",))
    request.db.run(
        "INSERT INTO comments (issue_id, author_id, text, date) VALUES (?, ?, ?, ?)",
        *(issue_id, user["id"], text, request.today),
    )
    return Redirect(f"/issues/{issue_id}", "The comment has been added.")


def _own(request: Request, comment_id: int) -> Row:
    return request.one("SELECT * FROM comments WHERE id = ? AND author_id = ?", comment_id, request.member()["id"])


def _form(request: Request, text: str, errors: tuple[str, ...] = ()) -> Page:
    return Page(
        "Edit comment", form(request.path, area("Comment", "text", text, 4), tag("p", button("Save comment"))), errors
    )


@site.get("/comments/{}")
def edit(request: Request, comment_id: int) -> Page:
    """Display the edit form of a comment."""
    return _form(request, _own(request, comment_id)["text"])


@site.post("/comments/{}")
def save(request: Request, comment_id: int) -> Reply:
    """Save a comment."""
    row, text = _own(request, comment_id), request.form.text("text")
    if not text:
        return _form(request, text, ("The comment must not be empty.",))
    request.db.run("UPDATE comments SET text = ? WHERE id = ?", text, comment_id)
    return Redirect(f"/issues/{row['issue_id']}", "The comment has been saved.")


@site.get("/comments/{}/delete")
def ask_delete(request: Request, comment_id: int) -> Page:
    """Display the confirmation page."""
    row = _own(request, comment_id)
    page = confirm("Delete this comment?", "Delete comment", request.path, f"/issues/{row['issue_id']}")
    return Page(page.title, tag("div", tag("blockquote", row["text"]), page.body))


@site.post("/comments/{}/delete")
def delete(request: Request, comment_id: int) -> Reply:
    """Delete a comment."""
    row = _own(request, comment_id)
    request.db.run("DELETE FROM comments WHERE id = ?", comment_id)
    return Redirect(f"/issues/{row['issue_id']}", "The comment has been deleted.")
