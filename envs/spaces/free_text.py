"""A Gymnasium space for free text.

``gymnasium.spaces.Text`` checks every character against a fixed charset. Observations and actions here are any text,
bounded only in length. ``sample`` joins words, so that samples resemble the text of an agent.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Space

MAX_ACTION_CHARS = 65_536


class FreeText(Space[str]):
    """Any string of at most ``max_length`` characters; ``sample`` draws from ``words``."""

    def __init__(
        self,
        max_length: int = MAX_ACTION_CHARS,
        words: Sequence[str] = ("yes", "no"),
        seed: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(shape=None, dtype=str, seed=seed)
        self.max_length = max_length
        self.words = tuple(words)

    @property
    def is_np_flattenable(self) -> bool:
        """Return False: text has no array form."""
        return False

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> str:
        """Return one to four words at random; ``mask`` and ``probability`` are ignored."""
        count = int(self.np_random.integers(1, 5))
        picks = self.np_random.integers(0, len(self.words), size=count)
        return " ".join(self.words[int(pick)] for pick in picks)[: self.max_length]

    def contains(self, x: Any) -> bool:
        """Return whether ``x`` is a string within the length bound."""
        return isinstance(x, str) and len(x) <= self.max_length

    def __repr__(self) -> str:
        return f"FreeText({self.max_length})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FreeText) and (self.max_length, self.words) == (other.max_length, other.words)

    def __hash__(self) -> int:
        return hash((self.max_length, self.words))
