"""The world of the wiki with its forum: a pure function of the seed. ``world_wiki_articles`` writes the articles."""

from typing import Any

from ..draws import Deal
from ..state import Row, Tables
from .people import day, people
from .wiki_articles import KINDS, articles

TODAY = "2031-06-03"
CATEGORIES = (*KINDS, "Coast", "Featured", "Needs sources", "Stubs")
BOARDS = {
    "News": "What is new in the wiki.",
    "Questions": "Ask what you could not find.",
    "Editing help": "How articles are written.",
    "Meeting place": "Everything else.",
}
ASKED = ("How do you", "Who wants to", "Is it right to", "When may one", "Please do not")
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
    "I have asked myself the same.",
    "The help page says something about it.",
    "Thank you, that was useful.",
    "I would wait until more people have answered.",
    "We did this last year, and it took a week.",
    "Could you give an example?",
    "I disagree, but I see your point.",
    "Let us try it with one article first.",
    "Done, please have a look.",
)
SUBJECTS = (
    "Your last change",
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
    """``today`` and ``tables`` of a wiki with 36 articles, 4 boards, 36 threads and 10 users."""
    deal = Deal(f"wiki world {seed}")
    tables: Tables = {
        "users": _users(deal),
        "categories": [{"id": number, "name": name} for number, name in enumerate(CATEGORIES, 1)],
    }
    kinds, tables["articles"], tables["revisions"] = articles(deal, USERS)
    tables["article_categories"] = [
        {"article_id": article["id"], "category_id": category}
        for article, kind in zip(tables["articles"], kinds, strict=True)
        for category in (CATEGORIES.index(kind) + 1, *_others(deal))
    ]
    tables["talk"] = [
        {
            "id": number,
            "article_id": article["id"],
            "user_id": deal.number(1, USERS),
            "date": day(1),
            "text": deal.pick(SAID),
        }
        for number, article in enumerate(deal.several(tables["articles"], 12), 1)
    ]
    tables["watches"] = [
        {"user_id": user["id"], "article_id": article["id"]}
        for user in tables["users"]
        for article in deal.several(tables["articles"], deal.number(1, 4))
    ]
    tables["boards"] = [
        {"id": number, "name": name, "description": text} for number, (name, text) in enumerate(BOARDS.items(), 1)
    ]
    tables["threads"], tables["posts"] = _forum(deal)
    tables["reports"] = []
    tables["messages"] = _messages(deal)
    return {"site": "wiki", "today": TODAY, "tables": tables}


def _users(deal: Deal) -> list[Row]:
    return [
        {
            "id": number,
            **person,
            "role": "moderator" if number <= MODERATORS else "member",
            "about": deal.pick(ABOUT),
            "show_email": deal.number(0, 1),
            "notify": deal.pick(("all", "own", "none")),
        }
        for number, person in enumerate(people(deal, USERS), 1)
    ]


def _others(deal: Deal) -> tuple[int, ...]:
    return tuple(sorted(deal.several(range(len(KINDS) + 1, len(CATEGORIES) + 1), deal.pick((0, 0, 1, 1, 2)))))


def _forum(deal: Deal) -> tuple[list[Row], list[Row]]:
    titles = deal.several([f"{asked} {doing}" for asked in ASKED for doing in DOING], 36)
    threads = list[Row]()
    written = list[tuple[int, int]]()
    for number, title in enumerate(titles, 1):
        pinned, locked = int(deal.chance(0.08)), int(deal.chance(0.1))
        threads.append(
            {"id": number, "board_id": deal.number(1, 4), "title": title, "pinned": pinned, "locked": locked}
        )
        begun = deal.number(40, 300)
        count = deal.pick((2, 3, 3, 4, 5, 6, 13))
        written += [(ago, number) for ago in (begun, *(deal.number(1, begun) for _ in range(count - 1)))]
    written.sort(key=lambda post: (-post[0], post[1]))
    posts = [
        {"id": number, "thread_id": thread, "user_id": deal.number(1, USERS), "date": day(ago), "text": deal.pick(SAID)}
        for number, (ago, thread) in enumerate(written, 1)
    ]
    return threads, posts


def _messages(deal: Deal) -> list[Row]:
    messages = list[Row]()
    for receiver in range(1, USERS + 1):
        for subject in deal.several(SUBJECTS, deal.number(2, 5)):
            sender = deal.pick([number for number in range(1, USERS + 1) if number != receiver])
            row = {"sender_id": sender, "receiver_id": receiver, "subject": subject, "text": deal.pick(SAID)}
            messages.append({"id": len(messages) + 1, **row, "date": day(2)})
    return messages
