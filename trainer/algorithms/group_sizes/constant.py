"""The same size for every group."""

from ....records import Task
from .base import GroupSize


class ConstantSize(GroupSize):
    """``rollout.group_size`` members."""

    def size(self, task: Task, group_size: int) -> int:
        """Return ``group_size``."""
        return group_size
