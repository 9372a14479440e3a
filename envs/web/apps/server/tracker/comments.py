"""Comment pages: add a comment; edit and delete the user's own comments."""

from ..sites import TRACKER as site
from ..web import Page, Redirect, Reply, Request, confirm
from .issues import issue_page

EMPTY = "The comment must not be empty."


@site.post("/issues/{}/comments")
def add(request: Request, issue_id: int) -> Reply:
    """Add a comment to an issue."""
    user, text = request.member(), request.form.text("text")
    request.find("issues", id=issue_id)
    if not text:
        return issue_page(request, issue_id, EMPTY)
    request.db.add("comments", issue_id=issue_id, author_id=user["id"], text=text, date=request.today)
    return Redirect(f"/issues/{issue_id}", "The comment has been added.")


@site.form("/comments/{}")
def edit(request: Request, comment_id: int) -> Reply:
    """Display the edit form of a comment, and save it."""
    row = request.find("comments", id=comment_id, author_id=request.member()["id"])
    text = request.form.text("text") if request.posted else row["text"]
    if not request.posted or not text:
        return Page("Edit comment", "projects.comment", [EMPTY] if not text else [], path=request.path, text=text)
    request.db.edit("comments", {"id": comment_id}, text=text)
    return Redirect(f"/issues/{row['issue_id']}", "The comment has been saved.")


@site.form("/comments/{}/delete")
def delete(request: Request, comment_id: int) -> Reply:
    """Delete a comment after a confirmation."""
    row = request.find("comments", id=comment_id, author_id=request.member()["id"])
    back = f"/issues/{row['issue_id']}"
    if not request.posted:
        return confirm("Delete this comment?", "Delete comment", request.path, back, row["text"])
    request.db.remove("comments", id=comment_id)
    return Redirect(back, "The comment has been deleted.")
