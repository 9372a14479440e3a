"""DARS's second stage (Yang et al. 2025, arXiv:2508.13755): more rollouts for tasks that the policy mostly fails.

GRPO's advantages of a group of ``N`` members with accuracy ``a`` sum to ``N * S`` in absolute value, where
``S = 2a(1 - a)``, so a hard task weighs less in an update than one of medium difficulty. A group with ``a < 1/2`` plays
``dN`` further members, which lift the sum::

    equal treatment     et:  dN = ceil((N/2 - N*S) / S)
    hardness weighted   hw:  dN = ceil((2(1 - a) * N/2 - N*S) / S)

with ``a = .5/N`` for a group without a success, and at most ``max_size`` members in all. With advantages that are
divided by the group's standard deviation, ``S = 2*sqrt(a(1 - a))`` and the sum to reach is ``N``. Both stages are one
group: it is closed, scored and filtered once. A group that never or always succeeds is left to the group filters. The
formulas with rounding and ``.5/N`` are those of the authors' code.
"""

from math import ceil, sqrt
from statistics import fmean
from typing import ClassVar, Literal

from pydantic import Field, PrivateAttr

from ....records import SUCCESS_RETURN, ScoredGroup, Task
from ..groups import counted_successes
from .base import GroupSize

METRIC_GROUPS = 32
"""Latest groups that the metric covers."""
ROUNDING = 1e-9
"""Subtracted before rounding up, so that a whole number stays as it is."""


class Dars(GroupSize):
    """``rollout.group_size`` members first, then more for a task that fewer than half of them solved."""

    schedule: Literal["et", "hw"] = "et"
    """``et`` gives tasks of every difficulty the same weight, ``hw`` gives hard tasks more."""
    max_size: int = Field(64, ge=2)
    """Members of both stages together, at most."""
    normalize_std: bool = False
    """Whether the advantage is divided by the group's standard deviation, as by ``advantage.normalize_std``."""
    min_return: float = SUCCESS_RETURN
    """Return from which a completed episode counts as a success if its environment gives no verdict."""

    remembered: ClassVar[tuple[str, ...]] = ("_sizes",)

    _sizes: list[int] = PrivateAttr(default_factory=list)
    """Sizes of the latest groups, oldest first."""

    def size(self, task: Task, group_size: int) -> int:
        """Return ``group_size``."""
        return group_size

    def additional(self, scored: ScoredGroup) -> int:
        """Return ``dN`` for the share of members that succeeded."""
        found = counted_successes(scored, self.min_return)
        count = len(found)
        accuracy = sum(found) / count or 0.5 / count
        if accuracy >= 0.5:
            return 0
        share, peak = 2 * accuracy * (1 - accuracy), count / 2
        if self.normalize_std:
            share, peak = 2 * sqrt(accuracy * (1 - accuracy)), count
        wanted = peak if self.schedule == "et" else 2 * (1 - accuracy) * peak
        return max(0, min(ceil((wanted - count * share) / share - ROUNDING), self.max_size - count))

    def observe(self, scored: ScoredGroup) -> None:
        """Record the size of the group after both stages."""
        self._sizes = [*self._sizes, scored.group.size][-METRIC_GROUPS:]

    def metrics(self) -> dict[str, float]:
        """Return the mean size of the latest groups."""
        return {"mean_size": fmean(self._sizes)} if self._sizes else {}
