"""Forum pages: boards, threads and replies. Pinned threads come first; locked threads accept no replies."""

from ..data import Row
from ..html import Html, area, button, field, form, join, link, paragraphs, select, table, tag
from ..web import Page, Redirect, Refused, Reply, Request, paged
from .base import is_moderator, site


@site.get("/forum")
def boards(request: Request) -> Page:
    """Display the boards."""
    rows = request.db.rows(
        "SELECT boards.*, count(threads.id) AS threads FROM boards LEFT JOIN threads ON board_id = boards.id"
        " GROUP BY boards.id ORDER BY boards.id"
    )
    cells = [(link(row["name"], f"/board/{row['id']}"), row["description"], row["threads"]) for row in rows]
    return Page("Forum", table("Boards", ("Board", "About", "Threads"), cells))


@site.get("/board/{}")
def board(request: Request, board_id: int) -> Page:
    """Display the threads of a board."""
    row = request.one("SELECT * FROM boards WHERE id = ?", board_id)
    skip, pages = paged(request, request.db.value("SELECT count(*) FROM threads WHERE board_id = ?", board_id))
    rows = request.db.rows(
        "SELECT threads.*, count(posts.id) AS posts, max(date) AS latest FROM threads LEFT JOIN posts"
        " ON thread_id = threads.id WHERE board_id = ? GROUP BY threads.id"
        " ORDER BY pinned DESC, latest DESC, threads.id DESC LIMIT 10 OFFSET ?",
        board_id,
        skip,
    )
    cells = [
        (link(each["title"], f"/thread/{each['id']}"), _state(each), each["posts"], each["latest"]) for each in rows
    ]
    new = tag("p", link("New thread", f"/board/{board_id}/new"))
    return Page(row["name"], join(new, table("Threads", ("Thread", "State", "Posts", "Latest"), cells), pages))


def _state(row: Row) -> str:
    return ", ".join(word for word in ("pinned", "locked") if row[word])


@site.get("/board/{}/new")
def new(request: Request, board_id: int) -> Page:
    """Display the form for a new thread."""
    request.member()
    return _new_page(request, request.one("SELECT * FROM boards WHERE id = ?", board_id), "", "")


def _new_page(request: Request, row: Row, title: str, text: str, errors: tuple[str, ...] = ()) -> Page:
    body = form(request.path, field("Title", "title", title), area("Text", "text", text, 6), button("Post thread"))
    return Page(f"New thread in {row['name']}", body, errors)


@site.post("/board/{}/new")
def create(request: Request, board_id: int) -> Reply:
    """Create a thread."""
    user, row = request.member(), request.one("SELECT * FROM boards WHERE id = ?", board_id)
    title, text = request.form.text("title"), request.form.text("text")
    if not title or not text:
        return _new_page(request, row, title, text, ("The title and the text must not be empty.",))
    number = request.db.run(
        "INSERT INTO threads (board_id, title, pinned, locked) VALUES (?, ?, 0, 0)", board_id, title
    )
    _add_post(request, number, user["id"], text)
    return Redirect(f"/thread/{number}", "The thread has been posted.")


def _add_post(request: Request, thread_id: int, user_id: int, text: str) -> None:
    request.db.run(
        "INSERT INTO posts (thread_id, user_id, date, text) VALUES (?, ?, ?, ?)",
        thread_id,
        user_id,
        request.today,
        text,
    )


@site.get("/thread/{}")
def thread(request: Request, thread_id: int) -> Page:
    """Display the posts of a thread."""
    return _thread_page(request, thread_id)


def _thread_page(request: Request, thread_id: int, errors: tuple[str, ...] = ()) -> Page:
    row = request.one(
        "SELECT threads.*, boards.name AS board FROM threads JOIN boards ON boards.id = board_id WHERE threads.id = ?",
        thread_id,
    )
    user = request.user()
    skip, pages = paged(request, request.db.value("SELECT count(*) FROM posts WHERE thread_id = ?", thread_id))
    rows = request.db.rows(
        "SELECT posts.*, users.name FROM posts JOIN users ON users.id = user_id WHERE thread_id = ?"
        " ORDER BY posts.id LIMIT 10 OFFSET ?",
        thread_id,
        skip,
    )
    reply = form(f"/thread/{thread_id}/reply", area("Reply", "text", "", 4), button("Post reply"))
    body = join(
        tag("p", "Board: ", link(row["board"], f"/board/{row['board_id']}"), ". ", _state(row)),
        _moderation(request, row) if is_moderator(user) else None,
        [_post(number, post, user) for number, post in enumerate(rows, skip + 1)],
        pages,
        tag("p", "This thread is locked.") if row["locked"] else reply,
    )
    return Page(row["title"], body, errors)


def _post(number: int, row: Row, user: Row | None) -> Html:
    actions = [link(f"Report post {number}", f"/post/{row['id']}/report"), " "]
    if user and user["id"] == row["user_id"]:
        actions += [link(f"Edit post {number}", f"/post/{row['id']}"), " "]
    if user and (user["id"] == row["user_id"] or is_moderator(user)):
        actions.append(link(f"Delete post {number}", f"/post/{row['id']}/delete"))
    heading = tag("h2", f"Post {number} by {row['name']}, {row['date']}")
    return tag("article", heading, paragraphs(row["text"]), tag("p", actions))


def _moderation(request: Request, row: Row) -> Html:
    path = f"/thread/{row['id']}"
    pin = ("Unpin thread", "0") if row["pinned"] else ("Pin thread", "1")
    lock = ("Unlock thread", "0") if row["locked"] else ("Lock thread", "1")
    boards = [(each["id"], each["name"]) for each in request.db.rows("SELECT * FROM boards ORDER BY id")]
    return tag(
        "section",
        tag("h2", "Moderation"),
        form(f"{path}/pin", button(pin[0], "on", pin[1])),
        form(f"{path}/lock", button(lock[0], "on", lock[1])),
        form(f"{path}/move", select("Board", "board", boards, row["board_id"]), button("Move thread")),
    )


@site.post("/thread/{}/reply")
def reply(request: Request, thread_id: int) -> Reply:
    """Reply to a thread."""
    user, row = request.member(), request.one("SELECT * FROM threads WHERE id = ?", thread_id)
    text = request.form.text("text")
    if row["locked"]:
        raise Refused("This thread is locked.")
    if not text:
        return _thread_page(request, thread_id, ("The reply must not be empty.",))
    _add_post(request, thread_id, user["id"], text)
    count = request.db.value("SELECT count(*) FROM posts WHERE thread_id = ?", thread_id)
    return Redirect(f"/thread/{thread_id}?page={-(-count // 10)}", "Your reply has been posted.")
