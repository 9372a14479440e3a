"""The base class of reward shapers."""

from abc import ABC, abstractmethod
from typing import ClassVar

from ....records import Group
from ..component import Component
from ..groups import PerTurn, ScoredPerTurn


class RewardShaper(Component, ABC):
    """Per-turn rewards: the first shaper receives the environment's, each later one the result of the one before."""

    slot: ClassVar[str] = "rewards"

    needs_texts: ClassVar[bool] = False
    """Whether it reads the texts of observations. Without it, they are not loaded and each is empty."""

    @abstractmethod
    def __call__(self, group: Group, rewards: PerTurn) -> ScoredPerTurn:
        """Return shaped rewards of the same shape, with None per trajectory without a score.

        Called off the event loop: it may wait, with a timeout.
        """
