"""The base class of horizon schedules."""

from abc import ABC, abstractmethod
from typing import ClassVar

from pydantic import Field

from ....records import Horizon, Task
from ..component import Component


class HorizonSchedule(Component, ABC):
    """A limit on turns that may depend on the number of updates, with constant limits on tokens."""

    slot: ClassVar[str] = "horizon"
    default: ClassVar[str] = "constant"

    max_tokens_per_turn: int = Field(32, ge=1)
    """Sampled tokens per turn."""
    max_tokens_per_episode: int = Field(4096, ge=1)
    """Sampled tokens per episode."""
    max_context: int = Field(1024, ge=2)
    """Prompt and completion together, in tokens; also the engines' ``max_model_len``."""

    @abstractmethod
    def turns_at(self, update: int) -> int:
        """Return the turns allowed after ``update`` updates."""

    @abstractmethod
    def longest_turns(self) -> int:
        """Return the most turns this schedule ever allows."""

    def horizon(self, task: Task, update: int) -> Horizon:
        """Return the horizon of a group of this task that opens after ``update`` updates."""
        return self._horizon(self.turns_at(update))

    def longest(self) -> Horizon:
        """Return the longest horizon of this schedule; evaluation plays it."""
        return self._horizon(self.longest_turns())

    def _horizon(self, turns: int) -> Horizon:
        return Horizon(turns, self.max_tokens_per_turn, self.max_tokens_per_episode, self.max_context)
