"""Post pages: edit, delete, and report in two steps."""

from typing import Any

from ..choices import REPORT_REASONS
from ..data import Row
from ..html import area, button, choice, facts, field, form, join, press, tag
from ..web import Page, Redirect, Refused, Reply, Request, confirm
from .base import is_moderator, site


def _post(request: Request, post_id: int) -> Row:
    request.member()
    return request.one("SELECT * FROM posts WHERE id = ?", post_id)


def _own(request: Request, post_id: int, moderators: bool = False) -> Row:
    user, row = request.member(), _post(request, post_id)
    if row["user_id"] != user["id"] and not (moderators and is_moderator(user)):
        raise Refused("This post belongs to another user.")
    return row


def _form(request: Request, text: str, errors: tuple[str, ...] = ()) -> Page:
    return Page("Edit post", form(request.path, area("Text", "text", text, 6), tag("p", button("Save post"))), errors)


@site.get("/post/{}")
def edit(request: Request, post_id: int) -> Page:
    """Display the edit form of a post."""
    return _form(request, _own(request, post_id)["text"])


@site.post("/post/{}")
def save(request: Request, post_id: int) -> Reply:
    """Save a post."""
    row, text = _own(request, post_id), request.form.text("text")
    if not text:
        return _form(request, text, ("The post must not be empty.",))
    request.db.run("UPDATE posts SET text = ? WHERE id = ?", text, post_id)
    return Redirect(f"/thread/{row['thread_id']}", "The post has been saved.")


@site.get("/post/{}/delete")
def ask_delete(request: Request, post_id: int) -> Page:
    """Display the confirmation page."""
    row = _own(request, post_id, moderators=True)
    page = confirm("Delete this post?", "Delete post", request.path, f"/thread/{row['thread_id']}")
    return Page(page.title, join(tag("blockquote", row["text"]), page.body))


@site.post("/post/{}/delete")
def delete(request: Request, post_id: int) -> Reply:
    """Delete a post with its reports, and its thread if the thread has no other post."""
    row = _own(request, post_id, moderators=True)
    request.db.run("DELETE FROM reports WHERE post_id = ?", post_id)
    request.db.run("DELETE FROM posts WHERE id = ?", post_id)
    if request.db.row("SELECT 1 FROM posts WHERE thread_id = ?", row["thread_id"]):
        return Redirect(f"/thread/{row['thread_id']}", "The post has been deleted.")
    request.db.run("DELETE FROM threads WHERE id = ?", row["thread_id"])
    return Redirect("/forum", "The thread has been deleted with its only post.")


def _draft(request: Request, post_id: int) -> dict[str, Any]:
    return request.session.drafts.setdefault(f"report {post_id}", {})


@site.get("/post/{}/report")
def choose_reason(request: Request, post_id: int) -> Page:
    """Display step 1."""
    return _reason_page(request, post_id)


def _reason_page(request: Request, post_id: int, errors: tuple[str, ...] = ()) -> Page:
    row, draft = _post(request, post_id), _draft(request, post_id)
    body = form(
        f"/post/{post_id}/report",
        choice("Reason", "reason", [(each, each) for each in REPORT_REASONS], draft.get("reason", "")),
        field("Note for the moderators", "note", draft.get("note", "")),
        button("Continue to confirmation"),
    )
    return Page("Report a post, step 1 of 2: reason", join(tag("blockquote", row["text"]), body), errors)


@site.post("/post/{}/report")
def keep_reason(request: Request, post_id: int) -> Reply:
    """Store the reason in the draft."""
    _post(request, post_id)
    reason = request.form.text("reason")
    if reason not in REPORT_REASONS:
        return _reason_page(request, post_id, ("Choose a reason.",))
    _draft(request, post_id).update(reason=reason, note=request.form.text("note"))
    return Redirect(f"/post/{post_id}/report/confirm")


@site.get("/post/{}/report/confirm")
def confirm_report(request: Request, post_id: int) -> Reply:
    """Display step 2."""
    row, draft = _post(request, post_id), _draft(request, post_id)
    if "reason" not in draft:
        return Redirect(f"/post/{post_id}/report")
    summary = facts([("Post", row["text"]), ("Reason", draft["reason"]), ("Note", draft["note"] or "none")])
    return Page("Report a post, step 2 of 2: confirm", join(summary, press("Submit report", request.path)))


@site.post("/post/{}/report/confirm")
def send_report(request: Request, post_id: int) -> Reply:
    """Report the post."""
    user, row = request.member(), _post(request, post_id)
    draft = request.session.drafts.pop(f"report {post_id}", {})
    if "reason" not in draft:
        return Redirect(f"/post/{post_id}/report")
    request.db.run(
        "INSERT INTO reports (post_id, user_id, reason, note) VALUES (?, ?, ?, ?)",
        *(post_id, user["id"], draft["reason"], draft["note"]),
    )
    return Redirect(f"/thread/{row['thread_id']}", "Thank you for your report.")
