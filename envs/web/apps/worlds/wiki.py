"""The initial data of the wiki with its forum; ``wiki_articles`` draws the articles."""

from typing import Any

from ....draws import SeededDraws
from ..state import Row, Tables
from .people import day, people
from .wiki_articles import KINDS, articles

TODAY = "2031-06-03"
CATEGORIES = (*KINDS, "Coast", "Featured", "Needs sources", "Stubs")
BOARDS = {
    "News": "Announcements about the wiki.",
    "Questions": "Ask for help with finding information.",
    "Editing help": "How to write articles.",
    "Meeting place": "Everything else.",
}
ASKED = ("How do you", "Who wants to", "Is it right to", "When should you", "Please do not")
DOING = (
    "split a long article",
    "sort the categories",
    "translate the towns",
    "add a photograph",
    "check old sources",
    "name a new river",
    "merge two museums",
    "count the visitors",
    "write a summary",
    "rename an article",
    "quote a letter",
    "draw a map",
)
SAID = (
    "I have wondered about that too.",
    "The help page mentions it.",
    "Thank you, that helped.",
    "I would wait for more replies.",
    "We did this last year, and it took a week.",
    "Could you give an example?",
    "I disagree, but I see your point.",
    "Let us try it with one article first.",
    "Done, please take a look.",
)
SUBJECTS = (
    "Your latest edit",
    "A question",
    "Meeting on Friday",
    "Thank you",
    "About the museums",
    "A mistake in an article",
    "Help wanted",
    "The new map",
)
ABOUT = ("I write about rivers.", "New here.", "Retired teacher.", "I check sources.", "")
USERS = 10
MODERATORS = 3


def world(seed: int) -> dict[str, Any]:
    """Return ``today`` and ``tables`` of a wiki with 36 articles, 4 boards, 36 threads and 10 users."""
    draws = SeededDraws(f"wiki world {seed}")
    tables: Tables = {
        "users": _users(draws),
        "categories": [{"id": number, "name": name} for number, name in enumerate(CATEGORIES, 1)],
    }
    kinds, tables["articles"], tables["revisions"] = articles(draws, USERS)
    tables["article_categories"] = [
        {"article_id": article["id"], "category_id": category}
        for article, kind in zip(tables["articles"], kinds, strict=True)
        for category in (CATEGORIES.index(kind) + 1, *_others(draws))
    ]
    tables["talk"] = [
        {
            "id": number,
            "article_id": article["id"],
            "user_id": draws.integer(1, USERS),
            "date": day(1),
            "text": draws.choice(SAID),
        }
        for number, article in enumerate(draws.sample(tables["articles"], 12), 1)
    ]
    tables["watches"] = [
        {"user_id": user["id"], "article_id": article["id"]}
        for user in tables["users"]
        for article in draws.sample(tables["articles"], draws.integer(1, 4))
    ]
    tables["boards"] = [
        {"id": number, "name": name, "description": text} for number, (name, text) in enumerate(BOARDS.items(), 1)
    ]
    tables["threads"], tables["posts"] = _forum(draws)
    tables["reports"] = []
    tables["messages"] = _messages(draws)
    return {"site": "wiki", "today": TODAY, "tables": tables}


def _users(draws: SeededDraws) -> list[Row]:
    return [
        {
            "id": number,
            **person,
            "role": "moderator" if number <= MODERATORS else "member",
            "about": draws.choice(ABOUT),
            "show_email": draws.integer(0, 1),
            "notify": draws.choice(("all", "own", "none")),
        }
        for number, person in enumerate(people(draws, USERS), 1)
    ]


def _others(draws: SeededDraws) -> tuple[int, ...]:
    return tuple(sorted(draws.sample(range(len(KINDS) + 1, len(CATEGORIES) + 1), draws.choice((0, 0, 1, 1, 2)))))


def _forum(draws: SeededDraws) -> tuple[list[Row], list[Row]]:
    titles = draws.sample([f"{asked} {doing}" for asked in ASKED for doing in DOING], 36)
    threads = list[Row]()
    written = list[tuple[int, int]]()
    for number, title in enumerate(titles, 1):
        pinned, locked = int(draws.chance(0.08)), int(draws.chance(0.1))
        threads.append(
            {"id": number, "board_id": draws.integer(1, 4), "title": title, "pinned": pinned, "locked": locked}
        )
        begun = draws.integer(40, 300)
        count = draws.choice((2, 3, 3, 4, 5, 6, 13))
        written += [(ago, number) for ago in (begun, *(draws.integer(1, begun) for _ in range(count - 1)))]
    written.sort(key=lambda post: (-post[0], post[1]))
    posts = [
        {
            "id": number,
            "thread_id": thread,
            "user_id": draws.integer(1, USERS),
            "date": day(ago),
            "text": draws.choice(SAID),
        }
        for number, (ago, thread) in enumerate(written, 1)
    ]
    return threads, posts


def _messages(draws: SeededDraws) -> list[Row]:
    messages = list[Row]()
    for receiver in range(1, USERS + 1):
        for subject in draws.sample(SUBJECTS, draws.integer(2, 5)):
            sender = draws.choice([number for number in range(1, USERS + 1) if number != receiver])
            row = {"sender_id": sender, "receiver_id": receiver, "subject": subject, "text": draws.choice(SAID)}
            messages.append({"id": len(messages) + 1, **row, "date": day(2)})
    return messages
