"""The base class of decisions on the size of a group, before it opens and before it closes."""

from abc import ABC, abstractmethod
from typing import ClassVar

from ....errors import TurnwiseError
from ....records import ScoredGroup, Task
from ..component import Component
from ..registry import component_name

MIN_SIZE = 2
"""Members that a comparison needs."""


class GroupSize(Component, ABC):
    """Chooses how many episodes a new group plays, and how many a second stage adds."""

    slot: ClassVar[str] = "group_size"
    default: ClassVar[str] = "constant"

    @abstractmethod
    def size(self, task: Task, group_size: int) -> int:
        """Return the members of a new group of ``task``, at least ``MIN_SIZE``.

        Args:
            group_size: the configured size, ``rollout.group_size``.
        """

    @property
    def has_second_stage(self) -> bool:
        """Whether ``additional`` is overridden; otherwise a group closes when its members have ended."""
        return type(self).additional is not GroupSize.additional

    def additional(self, scored: ScoredGroup) -> int:
        """Return how many members to add to a group whose members have all ended; 0 to close it.

        Called once per group with at least ``MIN_SIZE`` scored members, in the event loop of the run, which it must not
        block. The new members share task, horizon and prompt prefix. The group then closes and is scored, once.

        Args:
            scored: the members that completed or were truncated, with the rewards of the environment: the reward
                shapers are called later, once, with the members of both stages.
        """
        return 0

    def checked_size(self, task: Task, group_size: int) -> int:
        """Return the answer of ``size``.

        Raises:
            TurnwiseError: ``size`` raised, or did not return a whole number of at least ``MIN_SIZE``.
        """
        with self.calling("size"):
            return self._checked("size", self.size(task, group_size), MIN_SIZE)

    def checked_additional(self, scored: ScoredGroup) -> int:
        """Return the answer of ``additional``.

        Raises:
            TurnwiseError: ``additional`` raised, or did not return a whole number of at least 0.
        """
        with self.calling("additional"):
            return self._checked("additional", self.additional(scored), 0)

    def _checked(self, method: str, value: object, least: int) -> int:
        if isinstance(value, int) and value >= least:
            return value
        raise TurnwiseError(
            f"`{method}` of the {self.slot} component `{component_name(type(self))}` returned {value!r}: it must be a "
            f"whole number of at least {least}"
        )
