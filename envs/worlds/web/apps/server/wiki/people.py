"""User pages, the user's own profile, and private messages."""

from ..choices import NOTIFICATIONS
from ..data import Row
from ..requests import query
from ..sites import WIKI as site
from ..web import Page, Redirect, Reply, Request, confirm, listed

KINDS = {"received": ("receiver_id", "sender_id", "From"), "sent": ("sender_id", "receiver_id", "To")}


@site.get("/users/{}")
def person(request: Request, user_id: int) -> Page:
    """Display a user."""
    row = request.find("users", id=user_id)
    articles = request.db.rows(
        "SELECT DISTINCT articles.* FROM revisions JOIN articles ON articles.id = article_id WHERE user_id = ?"
        " ORDER BY title LIMIT 10",
        user_id,
    )
    posts = request.db.value("SELECT count(*) FROM posts WHERE user_id = ?", user_id)
    return Page(row["name"], "people.person", user=row, articles=articles, posts=posts)


@site.form("/profile")
def profile(request: Request) -> Reply:
    """Display the edit form of the user's profile, and save it."""
    values, errors = dict(request.member()), []
    if request.posted:
        values |= {**request.form.texts("name", "about", "notify"), "show_email": request.form.ticked("show_email")}
        if values["name"] and values["notify"] in NOTIFICATIONS:
            request.db.save("users", values)
            return Redirect("/profile", "Your profile has been saved.")
        errors = ["The name must not be empty."]
    return Page("Profile", "people.profile", errors, values=values, notifications=list(NOTIFICATIONS.items()))


@site.get("/messages")
@site.get("/messages/sent")
def messages(request: Request) -> Page:
    """Display the received or the sent messages, newest first."""
    kind = "sent" if request.path.endswith("sent") else "received"
    mine, other, heading = KINDS[kind]
    rows, pages = listed(
        request,
        f"SELECT messages.*, users.name FROM messages JOIN users ON users.id = {other} WHERE {mine} = ?"
        " ORDER BY messages.id DESC",
        request.member()["id"],
    )
    return Page(f"Messages {kind}", "people.messages", heading=heading, messages=rows, pages=pages)


def _own(request: Request, message_id: int) -> Row:
    user = request.member()
    return request.one(
        "SELECT messages.*, senders.name AS sender, senders.login, receivers.name AS receiver FROM messages"
        " JOIN users AS senders ON senders.id = sender_id JOIN users AS receivers ON receivers.id = receiver_id"
        " WHERE messages.id = ? AND ? IN (sender_id, receiver_id)",
        *(message_id, user["id"]),
    )


@site.get("/messages/{}")
def message(request: Request, message_id: int) -> Page:
    """Display a message."""
    row, user = _own(request, message_id), request.member()
    reply = "/messages/new" + query({"to": row["login"], "subject": f"Re: {row['subject']}"})
    received = row["receiver_id"] == user["id"]
    return Page(row["subject"], "people.message", message=row, reply=reply, received=received)


@site.form("/messages/new")
def new(request: Request) -> Reply:
    """Send a message."""
    user, errors = request.member(), []
    values = {**request.query.texts("to", "subject"), "text": ""}
    if request.posted:
        values = request.form.texts("to", "subject", "text")
        to, subject, text = values.values()
        receiver = request.db.row("SELECT * FROM users WHERE login = ?", to.lower())
        if receiver and subject and text:
            row = {"sender_id": user["id"], "receiver_id": receiver["id"], "subject": subject, "text": text}
            request.db.add("messages", **row, date=request.today)
            return Redirect("/messages/sent", f"Your message to {receiver['name']} has been sent.")
        errors = [] if receiver else ["No user has this user name."]
        if not subject or not text:
            errors.append("The subject and the message must not be empty.")
    return Page("New message", "people.new", errors, values=values)


@site.form("/messages/{}/delete")
def delete(request: Request, message_id: int) -> Reply:
    """Delete a received message after a confirmation."""
    row, user = _own(request, message_id), request.member()
    if not request.posted:
        question = f"Delete the message {row['subject']}?"
        return confirm(question, "Delete message", request.path, f"/messages/{message_id}")
    request.find("messages", id=message_id, receiver_id=user["id"])
    request.db.remove("messages", id=message_id)
    return Redirect("/messages", f"The message {row['subject']} has been deleted.")
