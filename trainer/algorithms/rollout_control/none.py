"""No control: an episode ends by its environment or its horizon."""

from collections.abc import Sequence
from random import Random
from typing import ClassVar

from ....agents.rollout.control import Decision, GroupView
from .base import RolloutController


class NoControl(RolloutController):
    """Play every member to its end."""

    passive: ClassVar[bool] = True

    def decide(self, view: GroupView, stream: Random) -> Sequence[Decision]:
        """Decide nothing."""
        return ()
