"""The articles of the wiki: towns, people, rivers and museums that link to one another, each with its history."""

from ....draws import SeededDraws, words
from ..state import Row
from .people import day

KINDS = ("Museums", "People", "Rivers", "Towns")
TOWNS = words(
    "Aldbury Brenton Calder Dunmore Eastham Farley Granton Hexley Ilmor Kelby Lunden Marsk Norwick Ostley Pellan Quarn "
    "Ridham Selby Tarrow Uphill Venning Wexton Yarley Zennor Ambling Borrow Cressing Dalby Elmstead Foxham"
)
RIVERS = words("Asker Belm Corra Dunn Ebber Fosse Gart Holme Irwell Joss Kenn Lode Mease Nar Ousel Piddle")
FIRST_NAMES = words("Agnes Bertil Cecile Dagny Edmund Flora Gustav Hedda Isak Judith Konrad Lydia Magnus Nelly")
LAST_NAMES = words("Thorne Vale Marlow Reed Castell Winter Boyle Farrow Lund Ashby Keller Pryce Rowan Sand")
SUBJECTS = words("Clock Salt Map Lantern Bell Paper Toy Sail Glass Herb Wool Coin Harp Tile Kite Lace")
MUSEUMS = tuple(f"{subject} {house}" for subject in SUBJECTS for house in ("Museum", "House"))
JOBS = words("painter botanist engineer composer teacher printer surveyor poet")
WORKS = ("The Long Field", "A Winter Journey", "Letters from Home", "The Blue Door", "Seven Bridges", "Evening Songs")
THINGS = words("clocks maps lamps bells boats tools dolls jars")
CHANGES = ("Corrected a number", "New figures", "From the yearbook", "Checked the source", "Small correction")
FIRST = "New article"


def articles(draws: SeededDraws, users: int) -> tuple[list[str], list[Row], list[Row]]:
    """Draw the category of each article, the articles, and all their revisions by date; the newest holds the facts."""
    towns, rivers = draws.sample(TOWNS, 10), draws.sample(RIVERS, 6)
    names = zip(draws.sample(FIRST_NAMES, 12), draws.sample(LAST_NAMES, 12), strict=True)
    persons, museums = tuple(f"{first} {last}" for first, last in names), draws.sample(MUSEUMS, 8)
    texts = [("Museums", name, _museum(draws, name, draws.choice(towns))) for name in museums]
    texts += [("People", name, _person(draws, name, draws.choice(towns))) for name in persons]
    texts += [("Rivers", name, _river(draws, name, draws.sample(towns, 2))) for name in rivers]
    founders = draws.sample(persons, len(towns))
    for name, founder in zip(towns, founders, strict=True):
        texts.append(("Towns", name, _town(draws, name, draws.choice(rivers), founder, draws.choice(museums))))
    texts.sort(key=lambda each: each[1])
    rows = [{"id": number, "title": title} for number, (_, title, _) in enumerate(texts, 1)]
    revisions = list[Row]()
    for number, (_, _, text) in enumerate(texts, 1):
        revisions += _history(draws, number, text, users)
    revisions.sort(key=lambda row: (str(row["date"]), int(row["article_id"])))
    for number, row in enumerate(revisions, 1):
        row["id"] = number
    return [kind for kind, _, _ in texts], rows, revisions


def _history(draws: SeededDraws, article_id: int, text: str, users: int) -> list[Row]:
    """Draw revisions on different days; # is the number that differs between them."""
    count = draws.choice((1, 2, 3, 3, 4, 5))
    days = sorted(draws.sample(range(3, 400), count), reverse=True)
    numbers = draws.sample(range(2, 90), count)
    return [
        {
            "id": 0,
            "article_id": article_id,
            "user_id": draws.integer(1, users),
            "date": day(ago),
            "summary": draws.choice(CHANGES) if place else FIRST,
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
    job = draws.choice(JOBS)
    return (
        f"{name} was {'an' if job[0] in 'aeiou' else 'a'} {job}.\n== Life ==\n"
        f"{name} was born in {born} in the town of [[{town}]] and had # pupils.\n== Work ==\n"
        f"The best-known work is {draws.choice(WORKS)}, from the year {born + draws.integer(20, 60)}."
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
        f"It shows {draws.integer(100, 9000)} {draws.choice(THINGS)} in # rooms.\n== Visit ==\n"
        f"It opened in {draws.integer(1850, 1990)} and is closed on {draws.choice(('Monday', 'Tuesday', 'Friday'))}s."
    )
