"""The base class of rollout controllers."""

from abc import ABC, abstractmethod
from typing import ClassVar

from ..component import Component


class RolloutController(Component, ABC):
    """Decides after each turn, in the rollout worker, whether the episode continues."""

    slot: ClassVar[str] = "rollout_control"
    default: ClassVar[str] = "none"

    @abstractmethod
    def stop(self, trajectory: str, turn: int, reward: float) -> str:
        """Return a reason to end the episode here as truncated; empty to continue."""
