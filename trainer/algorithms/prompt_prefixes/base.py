"""The base class of prompt prefixes."""

from abc import ABC, abstractmethod
from random import Random
from typing import ClassVar

from ....records import Task
from ..component import Component


class PromptPrefix(Component, ABC):
    """Chooses the text that all members of a group read before the environment's instructions."""

    slot: ClassVar[str] = "prompt_prefix"
    default: ClassVar[str] = "none"

    @abstractmethod
    def apply(self, task: Task, rng: Random) -> str:
        """Return the prefix for a new group of ``task``, empty for none; ``rng`` is this component's random stream."""
