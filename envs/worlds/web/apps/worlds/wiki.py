"""The initial data of the wiki with its forum.

The articles are towns, people, rivers and museums that link to one another, each with its history.
"""

from typing import Any

from .....draws import SeededDraws
from ..state import Row, Tables
from .common import as_world, day, numbered, people, words_of

WORDS = words_of("wiki")
KINDS = ("Museums", "People", "Rivers", "Towns")
"""The categories of which every article has one."""
CATEGORIES = (*KINDS, "Coast", "Featured", "Needs sources", "Stubs")
USERS = 10
MODERATORS = 3


def world(seed: int) -> dict[str, Any]:
    """Return ``today`` and ``tables`` of a wiki with 36 articles, 4 boards, 36 threads and 10 users."""
    draws = SeededDraws(f"wiki world {seed}")
    tables: Tables = {"users": _users(draws), "categories": numbered({"name": name} for name in CATEGORIES)}
    kinds, tables["articles"], tables["revisions"] = _articles(draws)
    tables["article_categories"] = [
        {"article_id": article["id"], "category_id": category}
        for article, kind in zip(tables["articles"], kinds, strict=True)
        for category in (CATEGORIES.index(kind) + 1, *_others(draws))
    ]
    tables["talk"] = numbered(
        {
            "article_id": article["id"],
            "user_id": draws.integer(1, USERS),
            "date": day(1),
            "text": draws.choice(WORDS["remarks"]),
        }
        for article in draws.sample(tables["articles"], 12)
    )
    tables["watches"] = [
        {"user_id": user["id"], "article_id": article["id"]}
        for user in tables["users"]
        for article in draws.sample(tables["articles"], draws.integer(1, 4))
    ]
    tables["boards"] = numbered({"name": name, "description": text} for name, text in WORDS["boards"].items())
    tables["threads"], tables["posts"] = _forum(draws)
    tables["reports"] = []
    tables["messages"] = _messages(draws)
    return as_world("wiki", tables)


def _users(draws: SeededDraws) -> list[Row]:
    return [
        {
            "id": number,
            **person,
            "role": "moderator" if number <= MODERATORS else "member",
            "about": draws.choice(WORDS["about"]),
            "show_email": draws.integer(0, 1),
            "notify": draws.choice(("all", "own", "none")),
        }
        for number, person in enumerate(people(draws, USERS), 1)
    ]


def _others(draws: SeededDraws) -> tuple[int, ...]:
    return tuple(sorted(draws.sample(range(len(KINDS) + 1, len(CATEGORIES) + 1), draws.choice((0, 0, 1, 1, 2)))))


def _forum(draws: SeededDraws) -> tuple[list[Row], list[Row]]:
    titles = draws.sample([f"{start} {doing}" for start in WORDS["title_starts"] for doing in WORDS["doing"]], 36)
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
    posts = numbered(
        {
            "thread_id": thread,
            "user_id": draws.integer(1, USERS),
            "date": day(ago),
            "text": draws.choice(WORDS["remarks"]),
        }
        for ago, thread in written
    )
    return threads, posts


def _messages(draws: SeededDraws) -> list[Row]:
    messages = list[Row]()
    for receiver in range(1, USERS + 1):
        for subject in draws.sample(WORDS["subjects"], draws.integer(2, 5)):
            sender = draws.choice([number for number in range(1, USERS + 1) if number != receiver])
            row = {
                "sender_id": sender,
                "receiver_id": receiver,
                "subject": subject,
                "text": draws.choice(WORDS["remarks"]),
            }
            messages.append({"id": len(messages) + 1, **row, "date": day(2)})
    return messages


def _articles(draws: SeededDraws) -> tuple[list[str], list[Row], list[Row]]:
    """Draw the category of each article, the articles, and all their revisions by date; the newest holds the facts."""
    towns, rivers = draws.sample(WORDS["towns"], 10), draws.sample(WORDS["rivers"], 6)
    museum_names = [f"{subject} {house}" for subject in WORDS["museums"] for house in ("Museum", "House")]
    names = zip(draws.sample(WORDS["first_names"], 12), draws.sample(WORDS["last_names"], 12), strict=True)
    persons, museums = tuple(f"{first} {last}" for first, last in names), draws.sample(museum_names, 8)
    texts = [("Museums", name, _museum(draws, name, draws.choice(towns))) for name in museums]
    texts += [("People", name, _person(draws, name, draws.choice(towns))) for name in persons]
    texts += [("Rivers", name, _river(draws, name, draws.sample(towns, 2))) for name in rivers]
    founders = draws.sample(persons, len(towns))
    for name, founder in zip(towns, founders, strict=True):
        texts.append(("Towns", name, _town(draws, name, draws.choice(rivers), founder, draws.choice(museums))))
    texts.sort(key=lambda each: each[1])
    rows = numbered({"title": title} for _, title, _ in texts)
    revisions = list[Row]()
    for number, (_, _, text) in enumerate(texts, 1):
        revisions += _history(draws, number, text)
    revisions.sort(key=lambda row: (str(row["date"]), int(row["article_id"])))
    for number, row in enumerate(revisions, 1):
        row["id"] = number
    return [kind for kind, _, _ in texts], rows, revisions


def _history(draws: SeededDraws, article_id: int, text: str) -> list[Row]:
    """Draw revisions on different days; # is the number that differs between them."""
    count = draws.choice((1, 2, 3, 3, 4, 5))
    days = sorted(draws.sample(range(3, 400), count), reverse=True)
    numbers = draws.sample(range(2, 90), count)
    return [
        {
            "id": 0,
            "article_id": article_id,
            "user_id": draws.integer(1, USERS),
            "date": day(ago),
            "summary": draws.choice(WORDS["changes"]) if place else "New article",
            "text": text.replace("#", str(number)),
        }
        for place, (ago, number) in enumerate(zip(days, numbers, strict=True))
    ]


def _town(draws: SeededDraws, name: str, river: str, founder: str, museum: str) -> str:
    return (
        f"{name} is a town on the river [[{river}]].\n== Overview ==\n"
        f"{name} has {draws.integer(2, 90)}{draws.integer(100, 999)} inhabitants and # bridges.\n== History ==\n"
        f"The town was founded in {draws.integer(1100, 1780)} by [[{founder}]].\n== Sights ==\n"
        f"Visitors come to see the [[{museum}]]."
    )


def _person(draws: SeededDraws, name: str, town: str) -> str:
    born = draws.integer(1700, 1890)
    job = draws.choice(WORDS["jobs"])
    return (
        f"{name} was {'an' if job[0] in 'aeiou' else 'a'} {job}.\n== Life ==\n"
        f"{name} was born in {born} in the town of [[{town}]] and had # pupils.\n== Work ==\n"
        f"The best-known work is {draws.choice(WORDS['works'])}, from the year {born + draws.integer(20, 60)}."
    )


def _river(draws: SeededDraws, name: str, towns: tuple[str, ...]) -> str:
    return (
        f"{name} is a river, {draws.integer(20, 400)} km long.\n== Course ==\n"
        f"It rises near [[{towns[0]}]] and flows into the sea near [[{towns[1]}]].\n== Use ==\n"
        f"It carries # ferries and powers {draws.integer(2, 40)} mills."
    )


def _museum(draws: SeededDraws, name: str, town: str) -> str:
    return (
        f"{name} is a museum in [[{town}]].\n== Collection ==\n"
        f"It shows {draws.integer(100, 9000)} {draws.choice(WORDS['things'])} in # rooms.\n== Visit ==\n"
        f"It opened in {draws.integer(1850, 1990)} and is closed on {draws.choice(('Monday', 'Tuesday', 'Friday'))}s."
    )
