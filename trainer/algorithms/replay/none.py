"""No reuse: every trajectory is trained on at most once."""

from collections.abc import Sequence
from random import Random

from ....records import Group
from .base import ReplayBuffer


class NoReplay(ReplayBuffer):
    """Fresh groups only."""

    def mix(self, fresh: Sequence[Group], rng: Random) -> list[Group]:
        """Return the fresh groups."""
        return list(fresh)
