"""The base class of rollout controllers."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from random import Random
from typing import ClassVar

from ....agents.rollout.control import Decision, GroupView
from ..component import Component


class RolloutController(Component, ABC):
    """Decides, in the rollout worker, which members of a running group continue."""

    slot: ClassVar[str] = "rollout_control"
    default: ClassVar[str] = "none"
    passive: ClassVar[bool] = False
    """Whether ``decide`` never decides anything; it is not called then."""

    def members(self, size: int) -> int:
        """Return how many members to open for a group of which ``size`` are wanted; at least ``size``."""
        return size

    @abstractmethod
    def decide(self, view: GroupView, stream: Random) -> Sequence[Decision]:
        """Return decisions about the running members of ``view``; a member without a decision continues.

        Called after each turn and after each end of an episode, in a copy of the controller that one group has for
        itself. It must return at once: all episodes of the worker wait for it.

        Args:
            view: the group so far; ``view.latest`` is the member that took the turn or ended.
            stream: the random stream of this group, seeded by the run's seed and the group's number.
        """
