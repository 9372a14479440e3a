"""No reuse: every trajectory is trained on at most once."""

from collections.abc import Sequence
from random import Random
from typing import ClassVar

from ....records import ScoredGroup
from ....store.queries import RunReader
from .base import ReplayBuffer


class NoReplay(ReplayBuffer):
    """Fresh groups only."""

    passive: ClassVar[bool] = True

    def mix(self, fresh: Sequence[ScoredGroup], reader: RunReader, update: int, stream: Random) -> list[ScoredGroup]:
        """Return the fresh groups."""
        return list(fresh)
