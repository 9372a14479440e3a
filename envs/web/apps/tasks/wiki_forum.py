"""Tasks in the forum of the wiki, with private messages and with profiles."""

from ..draws import Deal, NoInstance
from ..state import Row, World
from ..worlds.wiki import ASKED, DOING, SAID, SUBJECTS
from .acts import answer, as_user, button, choose, fill, link, log_in, radio, tick
from .template import Acts, Plan
from .wiki import book, watching

REASONS = ("Spam", "Rude", "Off topic", "Wrong board", "Copied without permission")
NOTIFY = {"all": "Every change", "own": "Changes of my articles", "none": "Nothing"}
NEXT = link("Next page")


def open_thread(world: World, thread: Row) -> Acts:
    """Find a thread in its board, page by page."""

    def place(row: Row) -> tuple[int, str, int]:
        return row["pinned"], max(post["date"] for post in world.rows("posts", thread_id=row["id"])), row["id"]

    board = world.row("boards", id=thread["board_id"])
    order = sorted(world.rows("threads", board_id=board["id"]), key=place, reverse=True)
    pages = (NEXT,) * (order.index(thread) // 10)
    return link("Forum"), link(board["name"]), *pages, link(thread["title"])


def open_post(world: World, post: Row, action: str) -> Acts:
    """Find a post in its thread, and the link that does something with it."""
    place = world.rows("posts", thread_id=post["thread_id"]).index(post)
    thread = world.row("threads", id=post["thread_id"])
    return *open_thread(world, thread), *(NEXT,) * (place // 10), link(f"{action} post {place + 1}")


def board_of(world: World, thread: Row) -> str:
    """The name of the board that a thread is in."""
    return str(world.row("boards", id=thread["board_id"])["name"])


@book.template("search")
def count_posts(deal: Deal, world: World) -> Plan:
    """How many posts somebody has written in a thread."""
    thread, user = deal.pick(world.tables["threads"]), deal.pick(world.tables["users"])
    posts = world.rows("posts", thread_id=thread["id"])
    count = len([row for row in posts if row["user_id"] == user["id"]])
    if not 1 < count < len(posts):
        raise NoInstance
    seen = (*open_thread(world, thread), *(NEXT,) * ((len(posts) - 1) // 10))
    return Plan(
        f"How many posts has {user['name']} written in the thread '{thread['title']}' of the board "
        f"{board_of(world, thread)}? Answer with the number.",
        (*seen, answer(count)),
        ((*seen, answer(len(posts))), (*seen, answer(count - 1))),
        answer=str(count),
    )


@book.template("create")
def new_thread(deal: Deal, world: World) -> Plan:
    """Begin a thread."""
    user, (board, other) = deal.pick(world.tables["users"]), deal.several(world.tables["boards"], 2)
    title, text = f"{deal.pick(ASKED)} {deal.pick(DOING)} in {deal.number(2032, 2060)}", deal.pick(SAID)
    after = world.after()
    number = after.add("threads", board_id=board["id"], title=title, pinned=0, locked=0)
    after.add("posts", thread_id=number, user_id=user["id"], date=world.today, text=text)

    def begun(board: Row, title: str) -> Acts:
        form = (link("New thread"), fill("Title", title), fill("Text", text), button("Post thread"))
        return (*log_in(user), link("Forum"), link(board["name"]), *form)

    return Plan(
        f"{as_user(user)} and begin a thread in the board {board['name']} with the title '{title}' and the text "
        f"'{text}'",
        begun(board, title),
        (begun(other, title), begun(board, title + "?"), begun(board, title)[:-1]),
        after,
    )


@book.template("create")
def reply(deal: Deal, world: World) -> Plan:
    """Reply in a thread."""
    user, (thread, other) = deal.pick(world.tables["users"]), deal.several(world.rows("threads", locked=0), 2)
    text, wrong = deal.several(SAID, 2)
    after = world.after()
    after.add("posts", thread_id=thread["id"], user_id=user["id"], date=world.today, text=text)

    def replied(thread: Row, text: str) -> Acts:
        return (*log_in(user), *open_thread(world, thread), fill("Reply", text), button("Post reply"))

    right = replied(thread, text)
    return Plan(
        f"{as_user(user)} and reply '{text}' in the thread '{thread['title']}' of the board {board_of(world, thread)}.",
        right,
        (replied(other, text), replied(thread, wrong), right[:-1], (*right, fill("Reply", text), button("Post reply"))),
        after,
    )


@book.template("two")
def moderate(deal: Deal, world: World) -> Plan:
    """Lock one thread and pin another."""
    user = deal.pick(world.rows("users", role="moderator"))
    locked, pinned = deal.several(world.rows("threads", locked=0, pinned=0), 2)
    after = world.after().edit("threads", {"id": locked["id"]}, locked=1)
    after.edit("threads", {"id": pinned["id"]}, pinned=1)
    lock = (*log_in(user), *open_thread(world, locked), button("Lock thread"))
    pin = (*open_thread(world, pinned), button("Pin thread"))
    return Plan(
        f"{as_user(user)}. Lock the thread '{locked['title']}' of the board {board_of(world, locked)}, and pin the "
        "thread "
        f"'{pinned['title']}' of the board {board_of(world, pinned)}.",
        (*lock, *pin),
        (lock, (*lock, *pin, button("Lock thread")), (*lock, *open_thread(world, pinned), button("Lock thread"))),
        after,
    )


@book.template("edit")
def move_thread(deal: Deal, world: World) -> Plan:
    """Move a thread to another board."""
    user, (thread, other) = deal.pick(world.rows("users", role="moderator")), deal.several(world.tables["threads"], 2)
    boards = [row for row in world.tables["boards"] if row["id"] not in (thread["board_id"], other["board_id"])]
    board, wrong = deal.several(boards, 2)

    def moved(thread: Row, board: Row) -> Acts:
        return (*log_in(user), *open_thread(world, thread), choose("Board", board["name"]), button("Move thread"))

    return Plan(
        f"{as_user(user)} and move the thread '{thread['title']}' from the board {board_of(world, thread)} to the "
        "board "
        f"{board['name']}.",
        moved(thread, board),
        (moved(other, board), moved(thread, wrong), moved(thread, board)[:-1]),
        world.after().edit("threads", {"id": thread["id"]}, board_id=board["id"]),
    )


@book.template("steps")
def report(deal: Deal, world: World) -> Plan:
    """Report a post, told by its number in the thread."""
    user, thread = deal.pick(world.tables["users"]), deal.pick(world.tables["threads"])
    post, other = deal.several(world.rows("posts", thread_id=thread["id"]), 2)
    reason, wrong = deal.several(REASONS, 2)
    note = deal.pick(("please have a look", "the third one this week", "see my message", "not for the first time"))
    after = world.after()
    after.add("reports", post_id=post["id"], user_id=user["id"], reason=reason, note=note)

    def reported(post: Row, reason: str) -> Acts:
        form = (radio(reason), fill("Note for the moderators", note), button("Continue to confirmation"))
        return (*log_in(user), *open_post(world, post, "Report"), *form, button("Send report"))

    place = world.rows("posts", thread_id=thread["id"]).index(post) + 1
    return Plan(
        f"{as_user(user)} and report post {place} of the thread '{thread['title']}' in the board "
        f"{board_of(world, thread)}, with the reason '{reason}' and the note '{note}'.",
        reported(post, reason),
        (reported(other, reason), reported(post, wrong), reported(post, reason)[:-1]),
        after,
    )


@book.template("delete")
def delete_post(deal: Deal, world: World) -> Plan:
    """Delete a post of one's own."""
    post = deal.pick(world.tables["posts"])
    user, thread = world.row("users", id=post["user_id"]), world.row("threads", id=post["thread_id"])
    posts = world.rows("posts", thread_id=thread["id"])
    if len(posts) < 2 or len([row for row in posts if row["user_id"] == user["id"]]) > 1:
        raise NoInstance
    other = deal.pick([row for row in world.rows("posts", user_id=user["id"]) if row is not post])

    def deleted(post: Row) -> Acts:
        return (*log_in(user), *open_post(world, post, "Delete"), button("Delete post"))

    return Plan(
        f"{as_user(user)} and delete your post in the thread '{thread['title']}' of the board "
        f"{board_of(world, thread)}.",
        deleted(post),
        (deleted(other), deleted(post)[:-1], (*deleted(post), *watching(world, user))),
        world.after().remove("posts", id=post["id"]),
    )


@book.template("create")
def message(deal: Deal, world: World) -> Plan:
    """Write a private message."""
    user, receiver, other = deal.several(world.tables["users"], 3)
    subject, text = deal.pick(SUBJECTS), f"{deal.pick(SAID)} {deal.pick(SAID)}"
    after = world.after()
    row = {"receiver_id": receiver["id"], "subject": subject, "text": text, "date": world.today}
    after.add("messages", sender_id=user["id"], **row)

    def sent(receiver: Row) -> Acts:
        form = (fill("To (user name)", receiver["login"]), fill("Subject", subject), fill("Message", text))
        return (*log_in(user), link("Messages"), link("New message"), *form, button("Send message"))

    return Plan(
        f"{as_user(user)} and send {receiver['name']} (user name {receiver['login']}) a private message with the "
        "subject "
        f"'{subject}' and the text '{text}'",
        sent(receiver),
        (sent(other), sent(receiver)[:-1], (*sent(receiver), *watching(world, user))),
        after,
    )


@book.template("delete")
def delete_message(deal: Deal, world: World) -> Plan:
    """Delete a message that somebody sent."""
    user = deal.pick(world.tables["users"])
    row, other = deal.several(world.rows("messages", receiver_id=user["id"]), 2)
    sender = world.row("users", id=row["sender_id"])

    def deleted(row: Row) -> Acts:
        opened = link(f"{row['subject']} (message {row['id']})")
        return link("Messages"), opened, link("Delete message"), button("Delete message")

    return Plan(
        f"{as_user(user)} and delete the private message '{row['subject']}' that {sender['name']} sent you.",
        (*log_in(user), *deleted(row)),
        (
            (*log_in(user), *deleted(other)),
            (*log_in(user), *deleted(row)[:-1]),
            (*log_in(user), *deleted(row), *deleted(other)),
        ),
        world.after().remove("messages", id=row["id"]),
    )


@book.template("edit")
def profile(deal: Deal, world: World) -> Plan:
    """Change what the profile says."""
    user = deal.pick(world.tables["users"])
    about = f"I collect {deal.pick(('maps', 'stamps', 'old letters', 'bird calls'))} since {deal.number(1990, 2030)}."
    notify, wrong = deal.several([each for each in NOTIFY if each != user["notify"]], 2)
    shown = 1 - user["show_email"]
    begin = (*log_in(user), link("Profile"), fill("About me", about))
    email, save = tick("Show my e-mail address"), button("Save profile")
    return Plan(
        f"{as_user(user)}. In the profile, write '{about}' about yourself, {'show' if shown else 'do not show'} the "
        "e-mail "
        f"address, and choose to be told about '{NOTIFY[notify]}'.",
        (*begin, email, choose("Tell me about", NOTIFY[notify]), save),
        (
            (*begin, email, choose("Tell me about", NOTIFY[wrong]), save),
            (*begin, choose("Tell me about", NOTIFY[notify]), save),
            (*begin, email, choose("Tell me about", NOTIFY[notify])),
        ),
        world.after().edit("users", {"id": user["id"]}, about=about, show_email=shown, notify=notify),
    )
