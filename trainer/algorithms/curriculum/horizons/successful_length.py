"""DART's horizon per task (Li et al. 2025, arXiv:2509.23866): the length of its successful episodes, and a margin.

The paper derives the limit of a task from the lengths of its past successes; the margin is ours.
"""

from collections.abc import Mapping
from math import ceil
from typing import Any

from pydantic import Field, PrivateAttr

from .....records import Horizon, ScoredGroup, Task
from ...groups import successes
from .base import HorizonSchedule


class SuccessfulLength(HorizonSchedule):
    """``max_turns`` until a task was solved, then ``margin`` times the turns of its longest success."""

    max_turns: int = Field(12, ge=1)
    """Turns per episode of a task without a success, and the limit of every task."""
    margin: float = Field(1.5, ge=1)
    """Factor of the longest successful length."""
    min_return: float = 0.5
    """Shaped return from which an episode counts as a success."""

    _longest: dict[str, int] = PrivateAttr(default_factory=dict)

    def turns_at(self, update: int) -> int:
        """Return ``max_turns``."""
        return self.max_turns

    def longest_turns(self) -> int:
        """Return ``max_turns``."""
        return self.max_turns

    def horizon(self, task: Task, update: int) -> Horizon:
        """Return the horizon of the task; at least one turn, also if an episode without turns counts as a success."""
        longest = self._longest.get(task.id)
        turns = self.max_turns if longest is None else min(self.max_turns, ceil(self.margin * longest))
        return self._horizon(max(1, turns))

    def observe(self, scored: ScoredGroup) -> None:
        """Record the longest success of the group."""
        won = successes(scored, self.min_return)
        lengths = [len(turns) for turns, success in zip(scored.rewards, won, strict=True) if success]
        if lengths:
            task = scored.group.task.id
            self._longest[task] = max(self._longest.get(task, 0), *lengths)

    def state_dict(self) -> dict[str, Any]:
        """Return the longest success by task."""
        return dict(self._longest)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the longest successes."""
        self._longest = dict(state)
