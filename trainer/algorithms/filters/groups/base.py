"""The base class of group filters."""

from abc import ABC, abstractmethod
from typing import ClassVar

from ...component import Component
from ...groups import GroupResult


class GroupFilter(Component, ABC):
    """Decides whether a closed group is worth training on."""

    slot: ClassVar[str] = "group_filters"

    @abstractmethod
    def reject(self, closed: GroupResult) -> str:
        """Return the reason to reject the group; empty to keep it."""
