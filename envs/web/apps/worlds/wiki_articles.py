"""The articles of the wiki: towns, people, rivers and museums that refer to one another, each with its history."""

from ..draws import Deal, words
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


def articles(deal: Deal, users: int) -> tuple[list[str], list[Row], list[Row]]:
    """The kind of each article, the articles, and all their revisions by date; the newest tells what is true."""
    towns, rivers = deal.several(TOWNS, 10), deal.several(RIVERS, 6)
    names = zip(deal.several(FIRST_NAMES, 12), deal.several(LAST_NAMES, 12), strict=True)
    persons, museums = tuple(f"{first} {last}" for first, last in names), deal.several(MUSEUMS, 8)
    texts = [("Museums", name, _museum(deal, name, deal.pick(towns))) for name in museums]
    texts += [("People", name, _person(deal, name, deal.pick(towns))) for name in persons]
    texts += [("Rivers", name, _river(deal, name, deal.several(towns, 2))) for name in rivers]
    founders = deal.several(persons, len(towns))
    for name, founder in zip(towns, founders, strict=True):
        texts.append(("Towns", name, _town(deal, name, deal.pick(rivers), founder, deal.pick(museums))))
    texts.sort(key=lambda each: each[1])
    rows = [{"id": number, "title": title} for number, (_, title, _) in enumerate(texts, 1)]
    revisions = list[Row]()
    for number, (_, _, text) in enumerate(texts, 1):
        revisions += _history(deal, number, text, users)
    revisions.sort(key=lambda row: (str(row["date"]), int(row["article_id"])))
    for number, row in enumerate(revisions, 1):
        row["id"] = number
    return [kind for kind, _, _ in texts], rows, revisions


def _history(deal: Deal, article_id: int, text: str, users: int) -> list[Row]:
    """Revisions on different days; # stands for the number that they disagree about."""
    count = deal.pick((1, 2, 3, 3, 4, 5))
    days = sorted(deal.several(range(3, 400), count), reverse=True)
    numbers = deal.several(range(2, 90), count)
    return [
        {
            "id": 0,
            "article_id": article_id,
            "user_id": deal.number(1, users),
            "date": day(ago),
            "summary": deal.pick(CHANGES) if place else FIRST,
            "text": text.replace("#", str(number)),
        }
        for place, (ago, number) in enumerate(zip(days, numbers, strict=True))
    ]


def _town(deal: Deal, name: str, river: str, founder: str, museum: str) -> str:
    return (
        f"{name} is a town on the river [[{river}]].\n== Overview ==\n"
        f"{name} has {deal.number(2, 90)}{deal.number(100, 999)} inhabitants and # bridges.\n== History ==\n"
        f"The town was founded in {deal.number(1100, 1780)} by [[{founder}]].\n== Sights ==\n"
        f"Visitors come to see the [[{museum}]]."
    )


def _person(deal: Deal, name: str, town: str) -> str:
    born = deal.number(1700, 1890)
    job = deal.pick(JOBS)
    return (
        f"{name} was {'an' if job[0] in 'aeiou' else 'a'} {job}.\n== Life ==\n"
        f"{name} was born in {born} in the town of [[{town}]] and had # pupils.\n== Work ==\n"
        f"The best known work is {deal.pick(WORKS)}, of the year {born + deal.number(20, 60)}."
    )


def _river(deal: Deal, name: str, towns: tuple[str, ...]) -> str:
    return (
        f"{name} is a river of {deal.number(20, 400)} km.\n== Course ==\n"
        f"It rises near [[{towns[0]}]] and flows into the sea near [[{towns[1]}]].\n== Use ==\n"
        f"It carries # ferries and turns {deal.number(2, 40)} mills."
    )


def _museum(deal: Deal, name: str, town: str) -> str:
    return (
        f"{name} is a museum in [[{town}]].\n== Collection ==\n"
        f"It shows {deal.number(100, 9000)} {deal.pick(THINGS)} in # rooms.\n== Visit ==\n"
        f"It was opened in {deal.number(1850, 1990)}; its day of rest is {deal.pick(('Monday', 'Tuesday', 'Friday'))}."
    )
