"""The base class of group filters."""

from abc import ABC, abstractmethod
from typing import ClassVar

from ....records import ScoredGroup
from ..component import Component


class GroupFilter(Component, ABC):
    """Decides whether a closed group is worth training on."""

    slot: ClassVar[str] = "group_filters"

    @abstractmethod
    def reject(self, scored: ScoredGroup) -> str:
        """Return the reason to reject a group of at least two scored members; empty to keep it. Called off the event
        loop, once per group.
        """
