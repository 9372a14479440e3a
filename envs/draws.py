"""Seeded random draws that stay the same from one Python version to the next, and the split that an instance is in."""

import contextlib
import random
import zlib
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

HELD_OUT_EVERY = 5
"""One instance of this many belongs to the test split."""


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text."""
    return tuple(text.split())


class NoInstance(Exception):
    """The draw leads to no task; another draw may."""


def held_out(key: str) -> bool:
    """Return whether the instances of this key belong to the test split, by a hash of the key."""
    return zlib.crc32(key.encode()) % HELD_OUT_EVERY == 0


def draw_for(split: str, draw: Callable[[], tuple[T, bool]]) -> T:
    """Return the first instance that belongs to a split.

    Args:
        draw: returns the next instance, and whether it is held out; it may raise ``NoInstance``.
    """
    while True:
        with contextlib.suppress(NoInstance):
            instance, is_held_out = draw()
            if is_held_out == (split == "test"):
                return instance


class SeededDraws:
    """A sequence of draws, a pure function of ``key``.

    It uses only ``random.Random.random``, the one method that Python promises to keep, so that a stored trajectory
    replays under any later Python.
    """

    def __init__(self, key: str) -> None:
        self._rng = random.Random(key)  # noqa: S311 - a game, not a secret

    def choice(self, options: Sequence[T]) -> T:
        """Draw one option. Raises NoInstance: there are no options."""
        if not options:
            raise NoInstance
        return options[int(self._rng.random() * len(options))]

    def sample(self, options: Sequence[T], count: int) -> tuple[T, ...]:
        """Draw ``count`` different options, in random order. Raises NoInstance: there are fewer."""
        if len(options) < count:
            raise NoInstance
        pool = list(options)
        return tuple([pool.pop(int(self._rng.random() * len(pool))) for _ in range(count)])

    def shuffled(self, options: Sequence[T]) -> tuple[T, ...]:
        """Draw all options in random order."""
        return self.sample(options, len(options))

    def integer(self, low: int, high: int) -> int:
        """Draw an integer from ``low`` to ``high``, both included."""
        return low + int(self._rng.random() * (high - low + 1))

    def chance(self, probability: float) -> bool:
        """Draw True with this probability."""
        return self._rng.random() < probability
