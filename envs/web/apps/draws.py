"""Drawing: a generator of random numbers whose draws stay the same from one Python version to the next."""

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def words(text: str) -> tuple[str, ...]:
    """The words of a text."""
    return tuple(text.split())


class NoInstance(Exception):
    """This draw leads to no task: another one may."""


class Deal:
    """Draws, a pure function of the key."""

    def __init__(self, key: str) -> None:
        self._rng = random.Random(key)  # noqa: S311 - a game, not a secret

    def pick(self, options: Sequence[T]) -> T:
        """One of the options.

        Raises:
            NoInstance: there are none.
        """
        if not options:
            raise NoInstance
        return options[int(self._rng.random() * len(options))]

    def several(self, options: Sequence[T], count: int) -> tuple[T, ...]:
        """So many different ones, in an order of chance.

        Raises:
            NoInstance: there are fewer.
        """
        if len(options) < count:
            raise NoInstance
        pool = list(options)
        return tuple(pool.pop(int(self._rng.random() * len(pool))) for _ in range(count))

    def number(self, low: int, high: int) -> int:
        """A whole number, both ends included."""
        return low + int(self._rng.random() * (high - low + 1))

    def chance(self, share: float) -> bool:
        """True in this share of the draws."""
        return self._rng.random() < share
