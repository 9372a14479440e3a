"""The base class of advantage estimators."""

from abc import ABC, abstractmethod
from typing import ClassVar

from ..component import Component
from ..groups import PerTurn


class AdvantageEstimator(Component, ABC):
    """Credit per turn."""

    slot: ClassVar[str] = "advantage"
    default: ClassVar[str] = "grpo"

    @abstractmethod
    def __call__(self, rewards: PerTurn) -> PerTurn:
        """Return one advantage per turn of each scored member of a group."""
