"""The base class of decisions on the size of a group."""

from abc import ABC, abstractmethod
from typing import ClassVar

from .....records import Task
from ...component import Component

MIN_SIZE = 2
"""Members that a comparison needs."""


class GroupSize(Component, ABC):
    """Chooses how many episodes a new group plays."""

    slot: ClassVar[str] = "group_size"
    default: ClassVar[str] = "constant"

    @abstractmethod
    def size(self, task: Task, group_size: int) -> int:
        """Return the members of a new group of ``task``, at least ``MIN_SIZE``.

        Args:
            group_size: the configured size, ``rollout.group_size``.
        """
