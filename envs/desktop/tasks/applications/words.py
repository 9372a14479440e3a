"""The words of which documents, names and goals consist."""

from ....draws import SeededDraws, words

STEMS = words("notes plan letter report agenda minutes recipe journal summary draft outline speech memo review story")
ITEMS = words(
    "apples spoons candles pencils lamps maps chairs ropes plates towels kettles baskets umbrellas mirrors clocks"
)
PEOPLE = words("Anna Bruno Clara David Elena Felix Greta Hugo Irene Jonas Katja Leon Marta Nils Olga Paul Rosa Simon")
PLACES = words("Lisbon Oslo Vienna Prague Dublin Athens Madrid Helsinki Warsaw Porto Geneva Bergen")
FOLDERS = words("Archive Letters Photos Invoices Travel School Garden Music Work Family Recipes Research")
DAYS = words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
VERBS = ("Call", "Visit", "Write to", "Wait for", "Meet", "Thank")


def sentence(draws: SeededDraws) -> str:
    """Draw one line of a note, such as ``Call Anna on Friday about the 4 lamps``."""
    person, day, item = draws.choice(PEOPLE), draws.choice(DAYS), draws.choice(ITEMS)
    return f"{draws.choice(VERBS)} {person} on {day} about the {draws.integer(2, 99)} {item}"


def note(draws: SeededDraws, count: int) -> list[str]:
    """Draw different lines of a note."""
    lines: list[str] = []
    while len(lines) < count:
        line = sentence(draws)
        if line not in lines:
            lines.append(line)
    return lines


def document(lines: list[str]) -> bytes:
    """Return a text file of these lines."""
    return ("\n".join(lines) + "\n").encode()
