"""Post pages: edit, delete, and report in two steps."""

from ..choices import REPORT_REASONS
from ..data import Row
from ..sites import WIKI as site
from ..web import Page, Redirect, Refused, Reply, Request, confirm
from .forum import is_moderator


def _own(request: Request, post_id: int, moderators: bool = False) -> Row:
    user, row = request.member(), request.find("posts", id=post_id)
    if row["user_id"] != user["id"] and not (moderators and is_moderator(user)):
        raise Refused("This post belongs to another user.")
    return row


@site.form("/post/{}")
def edit(request: Request, post_id: int) -> Reply:
    """Display the edit form of a post, and save it."""
    row = _own(request, post_id)
    text = request.form.text("text") if request.posted else row["text"]
    if not request.posted or not text:
        errors = [] if text else ["The post must not be empty."]
        return Page("Edit post", "forum.post", errors, path=request.path, text=text)
    request.db.edit("posts", {"id": post_id}, text=text)
    return Redirect(f"/thread/{row['thread_id']}", "The post has been saved.")


@site.form("/post/{}/delete")
def delete(request: Request, post_id: int) -> Reply:
    """Delete a post with its reports, and its thread if the thread has no other post, after a confirmation."""
    row = _own(request, post_id, moderators=True)
    thread = f"/thread/{row['thread_id']}"
    if not request.posted:
        return confirm("Delete this post?", "Delete post", request.path, thread, row["text"])
    request.db.remove("reports", post_id=post_id)
    request.db.remove("posts", id=post_id)
    if request.db.find("posts", thread_id=row["thread_id"]):
        return Redirect(thread, "The post has been deleted.")
    request.db.remove("threads", id=row["thread_id"])
    return Redirect("/forum", "The thread has been deleted with its only post.")


@site.form("/post/{}/report")
def choose_reason(request: Request, post_id: int) -> Reply:
    """Step 1: choose a reason."""
    request.member()
    row, draft, errors = request.find("posts", id=post_id), request.draft(f"report {post_id}"), []
    if request.posted:
        reason = request.form.text("reason")
        if reason in REPORT_REASONS:
            draft.update(reason=reason, note=request.form.text("note"))
            return Redirect(f"/post/{post_id}/report/confirm")
        errors = ["Choose a reason."]
    values = {"post": row, "reasons": [(each, each) for each in REPORT_REASONS], "draft": draft}
    return Page("Report a post, step 1 of 2: reason", "forum.report", errors, path=request.path, **values)


@site.form("/post/{}/report/confirm")
def report(request: Request, post_id: int) -> Reply:
    """Step 2: report the post."""
    user, row, draft = request.member(), request.find("posts", id=post_id), request.draft(f"report {post_id}")
    if request.posted:
        del request.session.drafts[f"report {post_id}"]
    if "reason" not in draft:
        return Redirect(f"/post/{post_id}/report")
    if request.posted:
        request.db.add("reports", post_id=post_id, user_id=user["id"], reason=draft["reason"], note=draft["note"])
        return Redirect(f"/thread/{row['thread_id']}", "Thank you for your report.")
    facts = {"Post": row["text"], "Reason": draft["reason"], "Note": draft["note"] or "none"}
    title = "Report a post, step 2 of 2: confirm"
    return Page(title, "common.review", path=request.path, facts=facts, yes="Submit report")
