"""Seeded random draws that stay the same from one Python version to the next."""

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text."""
    return tuple(text.split())


class NoInstance(Exception):
    """The draw leads to no task; another draw may."""


class SeededDraws:
    """A sequence of draws, a pure function of ``key``."""

    def __init__(self, key: str) -> None:
        self._rng = random.Random(key)  # noqa: S311 - a game, not a secret

    def choice(self, options: Sequence[T]) -> T:
        """Draw one option.

        Raises:
            NoInstance: there are no options.
        """
        if not options:
            raise NoInstance
        return options[int(self._rng.random() * len(options))]

    def sample(self, options: Sequence[T], count: int) -> tuple[T, ...]:
        """Draw ``count`` different options, in random order.

        Raises:
            NoInstance: there are fewer.
        """
        if len(options) < count:
            raise NoInstance
        pool = list(options)
        return tuple(pool.pop(int(self._rng.random() * len(pool))) for _ in range(count))

    def integer(self, low: int, high: int) -> int:
        """Draw an integer from ``low`` to ``high``, both included."""
        return low + int(self._rng.random() * (high - low + 1))

    def chance(self, probability: float) -> bool:
        """Draw True with this probability."""
        return self._rng.random() < probability
