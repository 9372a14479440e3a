"""Forum pages: boards, threads and replies. Pinned threads come first; locked threads accept no replies."""

from ..changes import start_thread
from ..data import Row
from ..sites import WIKI as site
from ..web import PAGE_SIZE, Page, Redirect, Refused, Reply, Request, paged


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
    pages = paged(request, request.db.value("SELECT count(*) FROM threads WHERE board_id = ?", board_id))
    rows = request.db.rows(
        "SELECT threads.*, count(posts.id) AS posts, max(date) AS latest FROM threads LEFT JOIN posts"
        " ON thread_id = threads.id WHERE board_id = ? GROUP BY threads.id"
        " ORDER BY pinned DESC, latest DESC, threads.id DESC LIMIT 10 OFFSET ?",
        *(board_id, pages.offset),
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
    pages = paged(request, request.db.value("SELECT count(*) FROM posts WHERE thread_id = ?", thread_id))
    posts = request.db.rows(
        "SELECT posts.*, users.name FROM posts JOIN users ON users.id = user_id WHERE thread_id = ?"
        " ORDER BY posts.id LIMIT 10 OFFSET ?",
        *(thread_id, pages.offset),
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
def pin(request: Request, thread_id: int) -> Reply:
    """Pin or unpin a thread."""
    _check_moderator(request, thread_id)
    on = request.form.ticked("on")
    request.db.edit("threads", {"id": thread_id}, pinned=on)
    return Redirect(f"/thread/{thread_id}", f"The thread has been {'pinned' if on else 'unpinned'}.")


@site.post("/thread/{}/lock")
def lock(request: Request, thread_id: int) -> Reply:
    """Lock or unlock a thread."""
    _check_moderator(request, thread_id)
    on = request.form.ticked("on")
    request.db.edit("threads", {"id": thread_id}, locked=on)
    return Redirect(f"/thread/{thread_id}", f"The thread has been {'locked' if on else 'unlocked'}.")


@site.post("/thread/{}/move")
def move(request: Request, thread_id: int) -> Reply:
    """Move a thread to another board."""
    _check_moderator(request, thread_id)
    board = request.find("boards", id=request.form.number("board"))
    request.db.edit("threads", {"id": thread_id}, board_id=board["id"])
    return Redirect(f"/thread/{thread_id}", f"The thread has been moved to the board {board['name']}.")
