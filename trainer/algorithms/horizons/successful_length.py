"""DART's horizon per task (Li et al. 2025, arXiv:2509.23866): the length of its successful episodes, and a margin.

The paper derives the limit of a task from the lengths of its past successes; the margin is ours. So is the growth after
a group in which the limit ended more episodes than succeeded: an early success may be shorter than most, and no longer
one is seen within its limit.
"""

from math import ceil
from typing import ClassVar

from pydantic import Field, PrivateAttr

from ....records import SUCCESS_RETURN, Horizon, ScoredGroup, Status, Task
from ..groups import successes
from .base import HorizonSchedule


class SuccessfulLength(HorizonSchedule):
    """``max_turns`` until a task was solved, then ``margin`` times the turns of its longest success; after each group
    without a success, or in which the limit ended more episodes than succeeded, ``margin`` times the limit so far."""

    max_turns: int = Field(12, ge=1)
    """Turns per episode of a task without a success, and the limit of every task."""
    margin: float = Field(1.5, ge=1)
    """Factor of the longest successful length, and of a limit that grows."""
    min_return: float = SUCCESS_RETURN
    """Return from which a completed episode counts as a success if its environment gives no verdict."""

    remembered: ClassVar[tuple[str, ...]] = ("_limits",)

    _limits: dict[str, int] = PrivateAttr(default_factory=dict)
    """Turns per episode of each task that was solved; a limit never falls."""

    def turns_at(self, update: int) -> int:
        """Return ``max_turns``."""
        return self.max_turns

    def longest_turns(self) -> int:
        """Return ``max_turns``."""
        return self.max_turns

    def horizon(self, task: Task, update: int) -> Horizon:
        """Return the horizon of the task."""
        return self._horizon(min(self.max_turns, self._limits.get(task.id, self.max_turns)))

    def observe(self, scored: ScoredGroup) -> None:
        """Raise the limit of the group's task for its longest success, or because it ended more episodes than that."""
        won = successes(scored, self.min_return)
        lengths = [len(turns) for turns, success in zip(scored.rewards, won, strict=True) if success]
        task, allowed = scored.group.task.id, scored.group.horizon.max_turns
        cut = sum(
            not success and one.status == Status.TRUNCATED and len(turns) >= allowed
            for one, turns, success in zip(scored.group.trajectories, scored.rewards, won, strict=True)
        )
        limit = self._limits.get(task)
        played = bool(won or scored.failed_by_policy)
        # A group that was opened under a lower limit shows nothing about the present one.
        if limit is not None and allowed >= limit and played and (not lengths or cut > len(lengths)):
            limit = max(limit + 1, ceil(self.margin * limit))
        if lengths:
            limit = max(limit or 1, ceil(self.margin * max(lengths)))
        if limit is not None:
            self._limits[task] = min(self.max_turns, limit)
