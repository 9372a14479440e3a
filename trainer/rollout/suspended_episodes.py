"""The suspended episodes of a run: which group continues them, and for how long they wait.

The tasks of suspended episodes come before those of the task sampler, oldest first. An episode is offered to one group
only. It is lost if it does not fit that group, if it waits for longer than the staleness bound, or if the process ends;
its turns were played in vain then, as those of a dropped episode are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...agents.rollout.control import CONTINUES
from ...agents.rollout.progress import BranchPoint
from ...records import Group, Task

MAX_EPISODES = 64
"""Suspended episodes that the driver holds, with the snapshots of their environments; the oldest make room."""


@dataclass(frozen=True, slots=True)
class Suspended:
    """A suspended episode."""

    point: BranchPoint
    group: Group
    """The group that suspended it."""
    since: int
    """Updates done when the group of its first turn opened."""

    def fits(self, group: Group) -> bool:
        """Whether a member of ``group`` may continue it: task, horizon and prompt prefix are equal."""
        mine = self.group
        return (mine.task, mine.horizon, mine.prompt_prefix) == (group.task, group.horizon, group.prompt_prefix)


class SuspendedEpisodes:
    """The suspended episodes of one run, oldest first."""

    def __init__(self, max_staleness: int) -> None:
        """``max_staleness`` is the number of updates after which an episode is given up."""
        self._max_staleness = max_staleness
        self._waiting: list[Suspended] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, group: Group, points: Iterable[BranchPoint], since: int, continued: Sequence[Suspended] = ()) -> None:
        """Keep the episodes that a group suspended; ``since`` is the number of updates done when it opened.

        A group that ``continued`` episodes keeps only these: otherwise each group for suspended episodes might suspend
        further ones of its task, and the task sampler would not be asked again.
        """
        first = {one.point.parent: one.since for one in continued}
        for point in points:
            origin = first.get(point.parent, first.get(point.progress.extras.get(CONTINUES, "")))
            if origin is not None or not continued:
                self._waiting.append(Suspended(point, group, since if origin is None else origin))
        self._waiting.sort(key=lambda one: one.since)
        del self._waiting[: max(0, len(self._waiting) - MAX_EPISODES)]

    def next_task(self, update: int) -> Task | None:
        """Return the task of the oldest episode; None if none waits. ``update`` is the number of updates done."""
        self._waiting = [one for one in self._waiting if update - one.since <= self._max_staleness]
        return self._waiting[0].group.task if self._waiting else None

    def take(self, group: Group) -> list[Suspended]:
        """Remove the episodes of a group's task, and return those that its members continue, at most its size."""
        offered = [one for one in self._waiting if one.group.task.id == group.task.id]
        self._waiting = [one for one in self._waiting if one.group.task.id != group.task.id]
        return [one for one in offered if one.fits(group)][: group.size]
