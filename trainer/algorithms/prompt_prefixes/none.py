"""No prefix: the environment's instructions alone."""

from random import Random

from ....records import Task
from .base import PromptPrefix


class NoPrefix(PromptPrefix):
    """No text before the environment's instructions."""

    def apply(self, task: Task, rng: Random) -> str:
        """Return no text."""
        return ""
