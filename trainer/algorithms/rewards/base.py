"""The base class of the slot ``rewards``."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from ....records import Group
from ..component import Component
from ..groups import PerTurn, Shaped


class RewardShaper(Component, ABC):
    """Changes per-turn rewards. The first component receives the rewards of the environment, each further component the
    result of the previous one."""

    slot: ClassVar[str] = "rewards"
    independent: ClassVar[bool] = False
    """Whether the score of a trajectory does not depend on the other members of its group. `turnwise runs score` then
    passes only the members without a score; otherwise it passes whole groups."""

    @abstractmethod
    def __call__(self, group: Group, rewards: PerTurn) -> Sequence[Shaped]:
        """Return the shaped rewards of each trajectory, one per turn, or no score.

        Called once per group, when it closes, in its own thread: it may wait, with a timeout. Rollouts and updates
        continue meanwhile.

        Args:
            group: the scored members of the group.
            rewards: ``rewards[i][t]`` of turn ``t`` of ``group.trajectories[i]``.
        """
