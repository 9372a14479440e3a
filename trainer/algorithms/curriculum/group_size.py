"""How many rollouts a task gets: by default the same for all."""

from pydantic import Field

from ....records import Task
from ..registry import Extension


class Constant(Extension):
    """Every group has ``group_size`` members."""

    group_size: int = Field(8, ge=2)

    def size(self, task: Task) -> int:
        """See ``protocols.RolloutBudget``."""
        return self.group_size
