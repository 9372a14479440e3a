"""No reuse: every trajectory is trained on at most once."""

from collections.abc import Sequence
from random import Random

from ....records import ScoredGroup
from .base import ReplayBuffer


class NoReplay(ReplayBuffer):
    """Fresh groups only."""

    def mix(self, fresh: Sequence[ScoredGroup], rng: Random) -> list[ScoredGroup]:
        """Return the fresh groups."""
        return list(fresh)
