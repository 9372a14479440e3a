"""What extra context a group's members get: by default none."""

from random import Random

from ....records import Task
from ..registry import Extension


class NoScaffold(Extension):
    """The environment's own words and nothing else."""

    def apply(self, task: Task, rng: Random) -> str:
        """See ``protocols.PromptScaffold``."""
        return ""
