"""Moderation of threads: pin, lock and move."""

from ..data import Row
from ..web import Redirect, Refused, Reply, Request
from .base import is_moderator, site


def _thread(request: Request, thread_id: int) -> Row:
    if not is_moderator(request.member()):
        raise Refused("Only moderators can do this.")
    return request.one("SELECT * FROM threads WHERE id = ?", thread_id)


@site.post("/thread/{}/pin")
def pin(request: Request, thread_id: int) -> Reply:
    """Pin or unpin a thread."""
    _thread(request, thread_id)
    on = int(request.form.text("on") == "1")
    request.db.run("UPDATE threads SET pinned = ? WHERE id = ?", on, thread_id)
    return Redirect(f"/thread/{thread_id}", "The thread has been pinned." if on else "The thread has been unpinned.")


@site.post("/thread/{}/lock")
def lock(request: Request, thread_id: int) -> Reply:
    """Lock or unlock a thread."""
    _thread(request, thread_id)
    on = int(request.form.text("on") == "1")
    request.db.run("UPDATE threads SET locked = ? WHERE id = ?", on, thread_id)
    return Redirect(f"/thread/{thread_id}", "The thread has been locked." if on else "The thread has been unlocked.")


@site.post("/thread/{}/move")
def move(request: Request, thread_id: int) -> Reply:
    """Move a thread to another board."""
    _thread(request, thread_id)
    board = request.one("SELECT * FROM boards WHERE id = ?", request.form.number("board"))
    request.db.run("UPDATE threads SET board_id = ? WHERE id = ?", board["id"], thread_id)
    return Redirect(f"/thread/{thread_id}", f"The thread has been moved to the board {board['name']}.")
