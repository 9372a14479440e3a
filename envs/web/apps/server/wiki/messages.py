"""Private messages: list, read, send, and delete received ones."""

from ..data import Row
from ..html import area, button, facts, field, form, join, link, paragraphs, table, tag
from ..requests import query
from ..web import Page, Redirect, Reply, Request, confirm, paged
from .base import site

KINDS = {"received": ("receiver_id", "sender_id", "From"), "sent": ("sender_id", "receiver_id", "To")}


@site.get("/messages")
def received(request: Request) -> Page:
    """Display the received messages, newest first."""
    return _list(request, "received")


@site.get("/messages/sent")
def sent(request: Request) -> Page:
    """Display the sent messages, newest first."""
    return _list(request, "sent")


def _list(request: Request, kind: str) -> Page:
    user = request.member()
    mine, other, heading = KINDS[kind]
    count = request.db.value(f"SELECT count(*) FROM messages WHERE {mine} = ?", user["id"])
    skip, pages = paged(request, count)
    rows = request.db.rows(
        f"SELECT messages.*, users.name FROM messages JOIN users ON users.id = {other} WHERE {mine} = ?"
        " ORDER BY messages.id DESC LIMIT 10 OFFSET ?",
        user["id"],
        skip,
    )
    # The id makes the link names unique; many messages share a subject.
    names = [f"{row['subject']} (message {row['id']})" for row in rows]
    cells = [
        (link(name, f"/messages/{row['id']}"), row["name"], row["date"]) for name, row in zip(names, rows, strict=True)
    ]
    body = join(
        tag(
            "p",
            link("Received", "/messages"),
            " ",
            link("Sent", "/messages/sent"),
            " ",
            link("New message", "/messages/new"),
        ),
        table("Messages", ("Subject", heading, "Date"), cells),
        pages,
    )
    return Page(f"Messages {kind}", body)


def _own(request: Request, message_id: int) -> Row:
    user = request.member()
    return request.one(
        "SELECT messages.*, senders.name AS sender, senders.login, receivers.name AS receiver FROM messages"
        " JOIN users AS senders ON senders.id = sender_id JOIN users AS receivers ON receivers.id = receiver_id"
        " WHERE messages.id = ? AND ? IN (sender_id, receiver_id)",
        message_id,
        user["id"],
    )


@site.get("/messages/{}")
def message(request: Request, message_id: int) -> Page:
    """Display a message."""
    row, user = _own(request, message_id), request.member()
    header = facts([("From", row["sender"]), ("To", row["receiver"]), ("Date", row["date"])])
    reply = "/messages/new" + query({"to": row["login"], "subject": f"Re: {row['subject']}"})
    actions = [link("Reply", reply), " ", link("Delete message", f"/messages/{message_id}/delete")]
    body = join(header, paragraphs(row["text"]), tag("p", actions) if row["receiver_id"] == user["id"] else None)
    return Page(row["subject"], body)


@site.get("/messages/new")
def new(request: Request) -> Page:
    """Display the form for a new message."""
    request.member()
    return _form(request.query.text("to"), request.query.text("subject"), "")


def _form(to: str, subject: str, text: str, errors: tuple[str, ...] = ()) -> Page:
    body = form(
        "/messages/new",
        field("To (user name)", "to", to),
        field("Subject", "subject", subject),
        area("Message", "text", text, 6),
        button("Send message"),
    )
    return Page("New message", body, errors)


@site.post("/messages/new")
def send(request: Request) -> Reply:
    """Send a message."""
    user, asked = request.member(), request.form
    to, subject, text = asked.text("to"), asked.text("subject"), asked.text("text")
    receiver = request.db.row("SELECT * FROM users WHERE login = ?", to.lower())
    errors = [] if receiver else ["No user has this user name."]
    if not subject or not text:
        errors.append("The subject and the message must not be empty.")
    if receiver is None or errors:
        return _form(to, subject, text, tuple(errors))
    request.db.run(
        "INSERT INTO messages (sender_id, receiver_id, subject, text, date) VALUES (?, ?, ?, ?, ?)",
        *(user["id"], receiver["id"], subject, text, request.today),
    )
    return Redirect("/messages/sent", f"Your message to {receiver['name']} has been sent.")


@site.get("/messages/{}/delete")
def ask_delete(request: Request, message_id: int) -> Page:
    """Display the confirmation page."""
    row = _own(request, message_id)
    return confirm(f"Delete the message {row['subject']}?", "Delete message", request.path, f"/messages/{message_id}")


@site.post("/messages/{}/delete")
def delete(request: Request, message_id: int) -> Reply:
    """Delete a received message."""
    user = request.member()
    row = request.one("SELECT * FROM messages WHERE id = ? AND receiver_id = ?", message_id, user["id"])
    request.db.run("DELETE FROM messages WHERE id = ?", message_id)
    return Redirect("/messages", f"The message {row['subject']} has been deleted.")
