"""The tasks of ``turnwise/TinyDesktop-v0``: make the calculator display a number."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..draws import HELD_OUT_EVERY, draw_for


@dataclass(frozen=True, slots=True)
class Instance:
    """One task: the calculator displays ``start``; it is solved once it displays ``wanted``."""

    kind: str
    goal: str
    start: str
    wanted: str
    presses: tuple[str, ...]
    """Buttons that solve it, by their words."""


Draw = Callable[[random.Random], Instance]


def _digit(draws: random.Random) -> str:
    return str(draws.randrange(1, 10))


def show(draws: random.Random) -> Instance:
    """Type one digit."""
    digit = _digit(draws)
    return Instance("show", f"show {digit}", "0", digit, (digit,))


def show_two(draws: random.Random) -> Instance:
    """Type a number of two digits."""
    digits = (_digit(draws), _digit(draws))
    return Instance("show_two", f"show {' '.join(digits)}", "0", "".join(digits), digits)


def append(draws: random.Random) -> Instance:
    """Type a digit after the one on the display."""
    start, digit = _digit(draws), _digit(draws)
    return Instance("append", f"show {start} {digit}", start, start + digit, (digit,))


def clear(draws: random.Random) -> Instance:
    """Clear the display."""
    start = _digit(draws) + _digit(draws)
    return Instance("clear", "clear the display", start, "0", ("clear",))


def erase(draws: random.Random) -> Instance:
    """Erase the last digit."""
    start = _digit(draws) + _digit(draws)
    return Instance("erase", "erase the last digit", start, start[0], ("erase",))


def add(draws: random.Random) -> Instance:
    """Add a digit to the number on the display."""
    start, digit = _digit(draws), _digit(draws)
    return Instance("add", f"add {digit}", start, str(int(start) + int(digit)), ("plus", digit, "equals"))


KINDS: Mapping[str, tuple[Draw, ...]] = {"trained": (show, show_two, append, clear, erase), "held_out": (add,)}


def draw(seed: int, split: str, by: str) -> Instance:
    """Return the instance of a seed. With ``by="instance"``, the splits share no instance."""
    draws = random.Random(f"tiny desktop {split} {seed} {by}")  # noqa: S311 - a game, not a secret
    kinds = KINDS["held_out" if by == "template" and split == "test" else "trained"]

    def instance() -> tuple[Instance, bool]:
        drawn = draws.choice(kinds)(draws)
        return drawn, split == "test" if by == "template" else is_held_out(drawn)

    return draw_for(split, instance)


def is_held_out(instance: Instance) -> bool:
    """Return whether an instance belongs to the test split."""
    return random.Random(f"{instance.kind} {instance.start} {instance.wanted}").randrange(HELD_OUT_EVERY) == 0  # noqa: S311
