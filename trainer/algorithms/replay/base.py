"""The base class of replay buffers."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from random import Random
from typing import ClassVar

from ....records import ScoredGroup
from ..component import Component


class ReplayBuffer(Component, ABC):
    """Decides which groups of a batch are fresh and which are reused."""

    slot: ClassVar[str] = "replay_buffer"
    default: ClassVar[str] = "none"

    @abstractmethod
    def mix(self, fresh: Sequence[ScoredGroup], rng: Random) -> list[ScoredGroup]:
        """Return the groups of the batch: reused groups added to fresh ones or in place of them."""
