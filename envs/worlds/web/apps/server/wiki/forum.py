"""The forum: boards, threads and posts. Pinned threads come first; locked threads accept no replies."""

from ..changes import start_thread
from ..choices import REPORT_REASONS
from ..data import Row
from ..sites import WIKI as site
from ..web import PAGE_SIZE, Page, Redirect, Refused, Reply, Request, confirm, listed

MARKS = {"pin": "pinned", "lock": "locked"}
"""The column of a mark, by the end of its path."""


def is_moderator(user: Row | None) -> bool:
    """Return whether this user is a moderator of the forum."""
    return user is not None and user["role"] == "moderator"


@site.get("/forum")
def boards(request: Request) -> Page:
    """Display the boards."""
    rows = request.db.rows(
        "SELECT boards.*, count(threads.id) AS threads FROM boards LEFT JOIN threads ON board_id = boards.id"
        " GROUP BY boards.id ORDER BY boards.id"
    )
    return Page("Forum", "forum.boards", boards=rows)


@site.get("/board/{}")
def board(request: Request, board_id: int) -> Page:
    """Display the threads of a board."""
    row = request.find("boards", id=board_id)
    rows, pages = listed(
        request,
        "SELECT threads.*, count(posts.id) AS posts, max(date) AS latest FROM threads LEFT JOIN posts"
        " ON thread_id = threads.id WHERE board_id = ? GROUP BY threads.id"
        " ORDER BY pinned DESC, latest DESC, threads.id DESC",
        board_id,
    )
    return Page(row["name"], "forum.board", board=row, threads=rows, pages=pages)


@site.form("/board/{}/new")
def new(request: Request, board_id: int) -> Reply:
    """Create a thread."""
    user, row, form = request.member(), request.find("boards", id=board_id), request.form
    title, text, errors = form.text("title"), form.text("text"), []
    if request.posted:
        if title and text:
            number = start_thread(request.db, request.today, user["id"], board_id, title, text)
            return Redirect(f"/thread/{number}", "The thread has been posted.")
        errors = ["The title and the text must not be empty."]
    return Page(f"New thread in {row['name']}", "forum.new", errors, path=request.path, title=title, text=text)


@site.get("/thread/{}")
def thread(request: Request, thread_id: int) -> Page:
    """Display the posts of a thread."""
    return _thread_page(request, thread_id)


def _thread_page(request: Request, thread_id: int, *errors: str) -> Page:
    row = request.one(
        "SELECT threads.*, boards.name AS board FROM threads JOIN boards ON boards.id = board_id WHERE threads.id = ?",
        thread_id,
    )
    user = request.user()
    posts, pages = listed(
        request,
        "SELECT posts.*, users.name FROM posts JOIN users ON users.id = user_id WHERE thread_id = ? ORDER BY posts.id",
        thread_id,
    )
    boards = request.db.rows("SELECT id, name FROM boards ORDER BY id")
    values = {"thread": row, "posts": posts, "pages": pages, "user": user, "moderates": is_moderator(user)}
    return Page(row["title"], "forum.thread", errors, boards=boards, **values)


@site.post("/thread/{}/reply")
def reply(request: Request, thread_id: int) -> Reply:
    """Reply to a thread."""
    user, row, text = request.member(), request.find("threads", id=thread_id), request.form.text("text")
    if row["locked"]:
        raise Refused("This thread is locked.")
    if not text:
        return _thread_page(request, thread_id, "The reply must not be empty.")
    request.db.add("posts", thread_id=thread_id, user_id=user["id"], date=request.today, text=text)
    count = request.db.value("SELECT count(*) FROM posts WHERE thread_id = ?", thread_id)
    return Redirect(f"/thread/{thread_id}?page={-(-count // PAGE_SIZE)}", "Your reply has been posted.")


def _check_moderator(request: Request, thread_id: int) -> None:
    """Raise Refused unless the user is a moderator and the thread exists."""
    if not is_moderator(request.member()):
        raise Refused("Only moderators can do this.")
    request.find("threads", id=thread_id)


@site.post("/thread/{}/pin")
@site.post("/thread/{}/lock")
def mark(request: Request, thread_id: int) -> Reply:
    """Pin or lock a thread, or undo that."""
    _check_moderator(request, thread_id)
    on, marked = request.form.ticked("on"), MARKS[request.path.rpartition("/")[2]]
    request.db.edit("threads", {"id": thread_id}, **{marked: on})
    return Redirect(f"/thread/{thread_id}", f"The thread has been {'' if on else 'un'}{marked}.")


@site.post("/thread/{}/move")
def move(request: Request, thread_id: int) -> Reply:
    """Move a thread to another board."""
    _check_moderator(request, thread_id)
    board = request.find("boards", id=request.form.number("board"))
    request.db.edit("threads", {"id": thread_id}, board_id=board["id"])
    return Redirect(f"/thread/{thread_id}", f"The thread has been moved to the board {board['name']}.")


def _own_post(request: Request, post_id: int, moderators: bool = False) -> Row:
    user, row = request.member(), request.find("posts", id=post_id)
    if row["user_id"] != user["id"] and not (moderators and is_moderator(user)):
        raise Refused("This post belongs to another user.")
    return row


@site.form("/post/{}")
def edit_post(request: Request, post_id: int) -> Reply:
    """Display the edit form of a post, and save it."""
    row = _own_post(request, post_id)
    text = request.form.text("text") if request.posted else row["text"]
    if not request.posted or not text:
        errors = [] if text else ["The post must not be empty."]
        return Page("Edit post", "forum.post", errors, path=request.path, text=text)
    request.db.edit("posts", {"id": post_id}, text=text)
    return Redirect(f"/thread/{row['thread_id']}", "The post has been saved.")


@site.form("/post/{}/delete")
def delete_post(request: Request, post_id: int) -> Reply:
    """Delete a post with its reports, and its thread if the thread has no other post, after a confirmation."""
    row = _own_post(request, post_id, moderators=True)
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
