"""The documents of tasks: texts, with the words of which names and goals consist, too, and pictures as PNG files."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .....draws import SeededDraws, words
from .....spaces import Png

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


Plane = NDArray[np.float64]
Mask = NDArray[np.bool_]

COLORS = {"red": (200, 40, 40), "green": (40, 150, 60), "blue": (40, 80, 200), "orange": (240, 140, 20)}
SHAPES: dict[str, Callable[[Plane, Plane], Mask]] = {
    "circle": lambda x, y: x * x + y * y < 0.5,
    "square": lambda x, y: np.maximum(abs(x), abs(y)) < 0.6,
    "triangle": lambda x, y: (abs(y) < 0.6) & (abs(x) < (y + 0.6) / 2),
    "cross": lambda x, y: (np.minimum(abs(x), abs(y)) < 0.2) & (np.maximum(abs(x), abs(y)) < 0.7),
}
"""Whether a point is in the shape; in the largest middle square, x (right) and y (down) run from -1 to 1."""
GROUND = (244, 242, 236)


def draw_picture(shape: str, color: str, width: int, height: int) -> bytes:
    """Return a PNG of ``width`` x ``height`` pixels; the same arguments give the same bytes."""
    side = min(width, height)
    y, x = np.mgrid[:height, :width] * 2.0 + 1.0
    mask = SHAPES[shape]((x - width) / side, (y - height) / side)
    pixels = np.where(mask[..., None], COLORS[color], GROUND).astype(np.uint8)
    return bytes(Png.encode(pixels, level=9))


def any_picture(draws: SeededDraws, width: int, height: int) -> bytes:
    """Draw a picture of this size."""
    return draw_picture(draws.choice(tuple(SHAPES)), draws.choice(tuple(COLORS)), width, height)
