"""DART's positive back-fill (Li et al. 2025, arXiv:2509.23866): a group that failed as a whole gets an old success.

Per leased group:

* If no member succeeded, the newest success of the same task takes the place of the first member from which no other
  member branches: the turns that a branch shares with its parent are trained on in the parent.
* The success may be of any group of the run's surviving history: trained on before, filtered, or expired. Branches and
  the fresh members of the batch are passed over; these are trained on in their own group.
* A group whose returns still are all equal is left out and expires.

The buffer thus does the work of the group filter ``zero_variance``, which would reject the failed groups before they
reach it; the configuration must have ``group_filters`` without that filter. The tokens of a success that is older than
``max_staleness`` are masked, and the success still counts in the baseline of its group. The paper sets no bound.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from pydantic import Field, PrivateAttr

from ....records import SUCCESS_RETURN, ScoredGroup, Trajectory
from ..group_filters.base import GroupFilter
from ..group_filters.zero_variance import ZeroVariance
from ..groups import successes
from ..losses.base import PolicyLoss
from .base import ReplayBuffer

if TYPE_CHECKING:
    from ....store.queries import RunReader

_SEARCHED = 32
"""Newest successes of a task to look through for one that is not a branch; members of the batch come on top."""


class SuccessBackfill(ReplayBuffer):
    """In a group without a success, the task's newest success replaces a member. Needs ``group_filters = []``."""

    max_staleness: int = Field(32, ge=0)
    """Staleness bound of replayed tokens, in updates; ``rollout.max_staleness`` bounds fresh ones."""
    min_return: float = SUCCESS_RETURN
    """Return from which a completed episode counts as a success if its environment gives no verdict."""

    _filled: int = PrivateAttr(0)
    _left_out: int = PrivateAttr(0)

    def mix(self, fresh: Sequence[ScoredGroup], reader: RunReader, update: int, stream: Random) -> list[ScoredGroup]:
        """Return the groups with different returns, after the back-fill."""
        self._filled = 0
        members = {member.id for one in fresh for member in one.group.trajectories}
        filled = [one if any(successes(one, self.min_return)) else self._fill(one, reader, members) for one in fresh]
        kept = [one for one in filled if not ZeroVariance().reject(one)]
        self._left_out = len(filled) - len(kept)
        return kept

    def _fill(self, scored: ScoredGroup, reader: RunReader, fresh: Collection[str]) -> ScoredGroup:
        """Return the group with an old success of its task in place of a member, or unchanged without one."""
        found = self._success(scored.group.task.id, reader, fresh)
        if found is None:
            return scored
        self._filled += 1
        members, rewards = list(scored.group.trajectories), list(scored.rewards)
        parents = {member.branched_from for member in members}
        replaced = next(index for index, member in enumerate(members) if member.id not in parents)
        members[replaced], rewards[replaced] = found
        return replace(scored, group=replace(scored.group, trajectories=tuple(members)), rewards=rewards)

    def _success(
        self, task: str, reader: RunReader, fresh: Collection[str]
    ) -> tuple[Trajectory, Sequence[float]] | None:
        """Return the newest success of a task that is neither a branch nor among ``fresh``; None if there is none."""
        newest = reader.successes(task, min_return=self.min_return, limit=_SEARCHED + len(fresh))
        for name in newest:
            if name in fresh:
                continue
            for success, rewards in reader.load_trajectories([name]):
                if success.branched_from is None:
                    return success, rewards
        return None

    def conflict(self, loss: PolicyLoss, group_filters: Sequence[GroupFilter]) -> str:
        """Return the reason if the filter ``zero_variance`` hides the failed groups."""
        if any(isinstance(group_filter, ZeroVariance) for group_filter in group_filters):
            return (
                "the group filter `zero_variance` rejects every group that the replay buffer `success_backfill` could "
                "fill: set `group_filters = []`; the buffer leaves out groups whose returns are all equal"
            )
        return super().conflict(loss, group_filters)

    def metrics(self) -> dict[str, float]:
        """Return how many groups of the last batch were filled, and how many were left out."""
        return {"filled_groups": self._filled, "left_out_groups": self._left_out}
