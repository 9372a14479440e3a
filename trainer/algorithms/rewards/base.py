"""The base class of the slot ``rewards``."""

from abc import ABC, abstractmethod
from typing import ClassVar

from ....records import Group
from ..component import Component
from ..groups import PerTurn, ScoredPerTurn


class RewardShaper(Component, ABC):
    """Changes per-turn rewards. The first component receives the rewards of the environment, each further component the
    result of the previous one."""

    slot: ClassVar[str] = "rewards"

    needs_texts: ClassVar[bool] = False
    """Whether it reads the texts of observations. Without it, they are not loaded and each is empty."""

    @abstractmethod
    def __call__(self, group: Group, rewards: PerTurn) -> ScoredPerTurn:
        """Return shaped rewards of the same shape, with None per trajectory without a score.

        Called off the event loop: it may wait, with a timeout.
        """
