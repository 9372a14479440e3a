"""Draw the choices and the names of an instance from one random stream.

Choices use only ``random.Random.random``, the one generator method Python promises to keep, so that a stored trajectory
replays under any later Python.
"""

import random
import zlib
from collections.abc import Sequence
from typing import TypeVar

HELD_OUT_SHARE = 5
"""One in this many choices of names belongs to the test split."""
_NOUNS = """
    amber anchor apron arrow basil beacon birch bishop bolt brook cabin candle canvas cedar cellar chalk cinder clover
    cobalt copper coral cotton crane cricket dagger daisy delta ember falcon fennel ferry flint forge garnet ginger
    glacier granite harbor hazel heron indigo iris ivory jasper juniper kestrel lagoon lantern laurel ledger lilac
    linen lotus magnet maple marble meadow mercury mint mosaic nectar nickel nutmeg oasis olive onyx opal orbit orchid
    otter paddle pebble pepper pilot plume poplar quarry quartz quill raven ribbon saddle saffron sage satin silver
    slate sparrow spruce summit tallow teal thistle timber topaz tulip tundra umber velvet violet walnut willow zinc
"""
NOUNS = tuple(_NOUNS.split())

T = TypeVar("T")


class Words:
    """One instance's choices. ``first``, ``second`` and ``third`` are different nouns, and together its identity: every
    family writes all three into its files.
    """

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)  # noqa: S311 - a game, not a secret
        self.first, self.second, self.third = self.several(NOUNS, 3)

    @property
    def held_out(self) -> bool:
        """Return whether an instance of these names, in any order, belongs to the test split."""
        key = " ".join(sorted((self.first, self.second, self.third)))
        return zlib.crc32(key.encode()) % HELD_OUT_SHARE == 0

    def number(self, low: int, high: int) -> int:
        """Draw an integer from ``low`` to ``high``, both included."""
        return low + int(self._random.random() * (high - low + 1))

    def pick(self, options: Sequence[T]) -> T:
        """Draw one of the options."""
        return options[int(self._random.random() * len(options))]

    def several(self, options: Sequence[T], count: int) -> list[T]:
        """Draw that many different options, in random order."""
        pool = list(options)
        return [pool.pop(int(self._random.random() * len(pool))) for _ in range(count)]

    def shuffled(self, options: Sequence[T]) -> list[T]:
        """Return all options in random order."""
        return self.several(options, len(options))
