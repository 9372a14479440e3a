"""Tasks in the wiki's forum, on private messages and on profiles."""

from .....draws import NoInstance, SeededDraws
from ..server.changes import start_thread
from ..server.choices import NOTIFICATIONS, REPORT_REASONS
from ..state import Row, World
from ..worlds.wiki import WORDS
from .plans import change, question
from .template import Act, Acts, Plan, answer, as_user, button, choose, fill, link, log_in, radio, tick
from .wiki import registry, unrequested_watch

NEXT = link("Next page")


def open_thread(world: World, thread: Row) -> Acts:
    """Return the acts that open a thread from the list of its board, page by page."""

    def place(row: Row) -> tuple[int, str, int]:
        return row["pinned"], max(post["date"] for post in world.find("posts", thread_id=row["id"])), row["id"]

    board = world.row("boards", id=thread["board_id"])
    order = sorted(world.find("threads", board_id=board["id"]), key=place, reverse=True)
    pages = (NEXT,) * (order.index(thread) // 10)
    return link("Forum"), link(board["name"]), *pages, link(thread["title"])


def open_post(world: World, post: Row, action: str) -> Acts:
    """Return the acts that find a post in its thread and follow the link for ``action`` on it."""
    place = world.find("posts", thread_id=post["thread_id"]).index(post)
    thread = world.row("threads", id=post["thread_id"])
    return *open_thread(world, thread), *(NEXT,) * (place // 10), link(f"{action} post {place + 1}")


def board_of(world: World, thread: Row) -> str:
    """Return the name of a thread's board."""
    return str(world.row("boards", id=thread["board_id"])["name"])


@registry.template("search")
def count_posts(draws: SeededDraws, world: World) -> Plan:
    """Count a user's posts in a thread."""
    thread, user = draws.choice(world.tables["threads"]), draws.choice(world.tables["users"])
    posts = world.find("posts", thread_id=thread["id"])
    count = len([row for row in posts if row["user_id"] == user["id"]])
    if not 1 < count < len(posts):
        raise NoInstance
    seen = (*open_thread(world, thread), *(NEXT,) * ((len(posts) - 1) // 10))
    goal = (
        f"How many posts did {user['name']} write in the thread '{thread['title']}' on the board "
        f"{board_of(world, thread)}? Answer with the number."
    )
    return question(goal, seen, count, (*seen, answer(len(posts))), (*seen, answer(count - 1)))


@registry.template("create")
def new_thread(draws: SeededDraws, world: World) -> Plan:
    """Start a thread."""
    user, (board, other) = draws.choice(world.tables["users"]), draws.sample(world.tables["boards"], 2)
    title, text = (
        f"{draws.choice(WORDS['title_starts'])} {draws.choice(WORDS['doing'])} in {draws.integer(2032, 2060)}",
        draws.choice(WORDS["remarks"]),
    )
    expected = world.expected_state()
    start_thread(expected, world.today, user["id"], board["id"], title, text)

    def begun(board: Row, title: str) -> Acts:
        form = (link("New thread"), fill("Title", title), fill("Text", text), button("Post thread"))
        return (link("Forum"), link(board["name"]), *form)

    goal = (
        f"{as_user(user)} and start a thread on the board {board['name']} with the title '{title}' and the text "
        f"'{text}'"
    )
    return change(goal, user, expected, begun(board, title), begun(other, title), begun(board, title + "?"))


@registry.template("create")
def reply(draws: SeededDraws, world: World) -> Plan:
    """Reply in a thread."""
    user, (thread, other) = draws.choice(world.tables["users"]), draws.sample(world.find("threads", locked=0), 2)
    text, wrong = draws.sample(WORDS["remarks"], 2)
    expected = world.expected_state()
    expected.add("posts", thread_id=thread["id"], user_id=user["id"], date=world.today, text=text)

    def replied(thread: Row, text: str) -> Acts:
        return (*open_thread(world, thread), fill("Reply", text), button("Post reply"))

    goal = (
        f"{as_user(user)} and reply '{text}' in the thread '{thread['title']}' on the board {board_of(world, thread)}."
    )
    right = replied(thread, text)
    return change(goal, user, expected, right, replied(other, text), replied(thread, wrong), (*right, *right[-2:]))


@registry.template("compound")
def moderate(draws: SeededDraws, world: World) -> Plan:
    """Lock one thread and pin another."""
    user = draws.choice(world.find("users", role="moderator"))
    locked, pinned = draws.sample(world.find("threads", locked=0, pinned=0), 2)
    expected = world.expected_state().edit("threads", {"id": locked["id"]}, locked=1)
    expected.edit("threads", {"id": pinned["id"]}, pinned=1)
    lock = (*log_in(user), *open_thread(world, locked), button("Lock thread"))
    pin = (*open_thread(world, pinned), button("Pin thread"))
    return Plan(
        f"{as_user(user)}. Lock the thread '{locked['title']}' on the board {board_of(world, locked)}, and pin "
        f"the thread '{pinned['title']}' on the board {board_of(world, pinned)}.",
        (*lock, *pin),
        (lock, (*lock, *pin, button("Lock thread")), (*lock, *open_thread(world, pinned), button("Lock thread"))),
        expected,
    )


@registry.template("edit")
def move_thread(draws: SeededDraws, world: World) -> Plan:
    """Move a thread to another board."""
    user, (thread, other) = (
        draws.choice(world.find("users", role="moderator")),
        draws.sample(world.tables["threads"], 2),
    )
    boards = [row for row in world.tables["boards"] if row["id"] not in (thread["board_id"], other["board_id"])]
    board, wrong = draws.sample(boards, 2)

    def moved(thread: Row, board: Row) -> Acts:
        return (*open_thread(world, thread), choose("Board", board["name"]), button("Move thread"))

    goal = (
        f"{as_user(user)} and move the thread '{thread['title']}' from the board {board_of(world, thread)} to "
        f"the board {board['name']}."
    )
    expected = world.expected_state().edit("threads", {"id": thread["id"]}, board_id=board["id"])
    return change(goal, user, expected, moved(thread, board), moved(other, board), moved(thread, wrong))


@registry.template("wizard")
def report(draws: SeededDraws, world: World) -> Plan:
    """Report a post, identified by its number in the thread."""
    user, thread = draws.choice(world.tables["users"]), draws.choice(world.tables["threads"])
    post, other = draws.sample(world.find("posts", thread_id=thread["id"]), 2)
    reason, wrong = draws.sample(REPORT_REASONS, 2)
    note = draws.choice(("please have a look", "the third one this week", "see my message", "not for the first time"))
    expected = world.expected_state()
    expected.add("reports", post_id=post["id"], user_id=user["id"], reason=reason, note=note)

    def reported(post: Row, reason: str) -> Acts:
        form = (radio(reason), fill("Note for the moderators", note), button("Continue to confirmation"))
        return (*open_post(world, post, "Report"), *form, button("Submit report"))

    place = world.find("posts", thread_id=thread["id"]).index(post) + 1
    goal = (
        f"{as_user(user)} and report post {place} of the thread '{thread['title']}' on the board "
        f"{board_of(world, thread)}, with the reason '{reason}' and the note '{note}'."
    )
    return change(goal, user, expected, reported(post, reason), reported(other, reason), reported(post, wrong))


@registry.template("delete")
def delete_post(draws: SeededDraws, world: World) -> Plan:
    """Delete the user's own post."""
    post = draws.choice(world.tables["posts"])
    user, thread = world.row("users", id=post["user_id"]), world.row("threads", id=post["thread_id"])
    posts = world.find("posts", thread_id=thread["id"])
    if len(posts) < 2 or len([row for row in posts if row["user_id"] == user["id"]]) > 1:
        raise NoInstance
    other = draws.choice([row for row in world.find("posts", user_id=user["id"]) if row is not post])

    def deleted(post: Row) -> Acts:
        return (*open_post(world, post, "Delete"), button("Delete post"))

    goal = (
        f"{as_user(user)} and delete your post in the thread '{thread['title']}' on the board "
        f"{board_of(world, thread)}."
    )
    expected = world.expected_state().remove("posts", id=post["id"])
    more = (*deleted(post), *unrequested_watch(world, user))
    return change(goal, user, expected, deleted(post), deleted(other), more)


@registry.template("create")
def message(draws: SeededDraws, world: World) -> Plan:
    """Send a private message."""
    user, receiver, other = draws.sample(world.tables["users"], 3)
    subject, text = (
        draws.choice(WORDS["subjects"]),
        f"{draws.choice(WORDS['remarks'])} {draws.choice(WORDS['remarks'])}",
    )
    expected = world.expected_state()
    row = {"receiver_id": receiver["id"], "subject": subject, "text": text, "date": world.today}
    expected.add("messages", sender_id=user["id"], **row)

    def sent(receiver: Row) -> Acts:
        form = (fill("To (user name)", receiver["login"]), fill("Subject", subject), fill("Message", text))
        return (link("Messages"), link("New message"), *form, button("Send message"))

    goal = (
        f"{as_user(user)} and send {receiver['name']} (user name {receiver['login']}) a private message with the "
        f"subject '{subject}' and the text '{text}'"
    )
    more = (*sent(receiver), *unrequested_watch(world, user))
    return change(goal, user, expected, sent(receiver), sent(other), more)


@registry.template("delete")
def delete_message(draws: SeededDraws, world: World) -> Plan:
    """Delete a received message."""
    user = draws.choice(world.tables["users"])
    row, other = draws.sample(world.find("messages", receiver_id=user["id"]), 2)
    sender = world.row("users", id=row["sender_id"])

    def deleted(row: Row) -> Acts:
        opened = link(f"{row['subject']} (message {row['id']})")
        return link("Messages"), opened, link("Delete message"), button("Delete message")

    goal = f"{as_user(user)} and delete the private message '{row['subject']}' that {sender['name']} sent you."
    expected = world.expected_state().remove("messages", id=row["id"])
    return change(goal, user, expected, deleted(row), deleted(other), (*deleted(row), *deleted(other)))


@registry.template("edit")
def profile(draws: SeededDraws, world: World) -> Plan:
    """Change the profile."""
    user = draws.choice(world.tables["users"])
    hobby = draws.choice(("maps", "stamps", "old letters", "bird calls"))
    about = f"I have collected {hobby} since {draws.integer(1990, 2030)}."
    notify, wrong = draws.sample([each for each in NOTIFICATIONS if each != user["notify"]], 2)
    shown = 1 - user["show_email"]

    def saved(notify: str, *more: Act) -> Acts:
        chosen = choose("Notify me about", NOTIFICATIONS[notify])
        return (link("Profile"), fill("About me", about), *more, chosen, button("Save profile"))

    goal = (
        f"{as_user(user)}. In the profile, set 'About me' to '{about}', {'show' if shown else 'hide'} the e-mail "
        f"address, and set 'Notify me about' to '{NOTIFICATIONS[notify]}'."
    )
    expected = world.expected_state().edit("users", {"id": user["id"]}, about=about, show_email=shown, notify=notify)
    email = tick("Show my e-mail address")
    return change(goal, user, expected, saved(notify, email), saved(wrong, email), saved(notify))
