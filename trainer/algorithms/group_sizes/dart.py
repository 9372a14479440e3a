"""DART's rollout counts (Li et al. 2025, arXiv:2509.23866): fewer episodes for tasks that the policy mostly solves.

With ``N = rollout.group_size`` and the success rate ``s`` of the task's latest groups::

    n(s) = N                                        if s < threshold
         = max(min_size, floor(N / 8 * (9 / s - 7)))   otherwise, at most N

The paper has ``N = 8``, with which ``9 / s - 7`` meets N at ``s = .6`` and is a quarter of N at ``s = 1``; the factor
``N / 8``, which is ours, keeps both for every N.
"""

from math import floor
from typing import ClassVar

from pydantic import Field, PrivateAttr

from ....records import SUCCESS_RETURN, ScoredGroup, Task
from ..groups import counted_successes
from .base import MIN_SIZE, GroupSize

PAPER_SIZE = 8
"""The group size that the paper's formula is made for."""


class Dart(GroupSize):
    """``rollout.group_size`` members for a task that is new or hard, fewer for one that is mostly solved."""

    threshold: float = Field(0.6, gt=0, le=1)
    """Success rate below which a task keeps all members."""
    min_size: int = Field(MIN_SIZE, ge=MIN_SIZE)
    """Members of a task that is always solved, at least."""
    latest_groups: int = Field(2, ge=1)
    """Groups of a task over which the success rate is computed."""
    min_return: float = SUCCESS_RETURN
    """Return from which a completed episode counts as a success if its environment gives no verdict."""

    remembered: ClassVar[tuple[str, ...]] = ("_latest",)

    _latest: dict[str, list[list[int]]] = PrivateAttr(default_factory=dict)
    """Task -> successes and members of its latest groups, oldest first."""

    def size(self, task: Task, group_size: int) -> int:
        """Return the members for the success rate of ``task``."""
        groups = self._latest.get(task.id, [])
        members = sum(count for _, count in groups)
        rate = sum(won for won, _ in groups) / members if members else 0.0
        if rate < self.threshold:
            return group_size
        return min(group_size, max(self.min_size, floor(group_size / PAPER_SIZE * (9 / rate - 7) + 1e-9)))

    def observe(self, scored: ScoredGroup) -> None:
        """Record the successes of the group."""
        found = counted_successes(scored, self.min_return)
        if found:
            groups = self._latest.setdefault(scored.group.task.id, [])
            groups.append([sum(found), len(found)])
            del groups[: -self.latest_groups]
