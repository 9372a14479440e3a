"""No reuse: every trajectory is trained on at most once."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, ClassVar

from ....records import ScoredGroup
from .base import ReplayBuffer

if TYPE_CHECKING:
    from ....store.queries import RunReader


class NoReplay(ReplayBuffer):
    """Fresh groups only."""

    passive: ClassVar[bool] = True

    def mix(self, fresh: Sequence[ScoredGroup], reader: RunReader, update: int, stream: Random) -> list[ScoredGroup]:
        """Return the fresh groups."""
        return list(fresh)
