"""The base class of horizon schedules."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

from pydantic import Field

from ....agents.engine.config import MAX_IMAGES
from ....records import Horizon, Task
from ..component import Component

LANGUAGE_MODEL_LIMITS: Mapping[str, int] = MappingProxyType(
    {"max_tokens_per_turn": 512, "max_tokens_per_episode": 8192, "max_context": 4096}
)
"""The defaults of the limits on tokens with `model.path`: sentences, where a new model writes single words."""


class HorizonSchedule(Component, ABC):
    """A limit on turns that may depend on the number of updates, with constant limits on tokens."""

    slot: ClassVar[str] = "horizon"
    default: ClassVar[str] = "constant"

    max_tokens_per_turn: int = Field(32, ge=1)
    """Sampled tokens per turn; the default with `model.path` is 512."""
    max_tokens_per_episode: int = Field(4096, ge=1)
    """Sampled tokens per episode; the default with `model.path` is 8192."""
    max_context: int = Field(1024, ge=2)
    """Prompt and completion together, in tokens; also the engines' ``max_model_len``. The default with `model.path` is
    4096."""
    max_images: int = Field(8, ge=1, le=MAX_IMAGES)
    """Screenshots in the context, for a policy that reads images: the newest. Older observations keep their text. From
    the first one that is dropped on, each turn is trained on with the context that it was sampled in."""

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
