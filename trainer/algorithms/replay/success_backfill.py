"""DART's positive back-fill (Li et al. 2025, arXiv:2509.23866): a group that failed as a whole gets an old success.

Per leased group:

* If no member succeeded, the newest success of the same task takes the place of the first member. The success may be of
  any group of the run's surviving history: trained on before, filtered, or expired.
* A group whose returns still are all equal is left out and expires.

The buffer thus does the work of the group filter ``zero_variance``, which would reject the failed groups before they
reach it; the configuration must have ``group_filters`` without that filter. The tokens of a success that is older than
``max_staleness`` are masked, and the success still counts in the baseline of its group. The paper sets no bound.
"""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from pydantic import Field, PrivateAttr

from ....records import ScoredGroup
from ..filters.groups.base import GroupFilter
from ..filters.groups.zero_variance import ZeroVariance
from ..groups import successes
from ..losses.base import PolicyLoss
from .base import ReplayBuffer, StoreReader


class SuccessBackfill(ReplayBuffer):
    """In a group without a success, the task's newest success replaces a member. Needs ``group_filters = []``."""

    max_staleness: int = Field(32, ge=0)
    """Staleness bound of replayed tokens, in updates; ``rollout.max_staleness`` bounds fresh ones."""
    min_return: float = 0.5
    """Shaped return from which an episode counts as a success."""

    _filled: int = PrivateAttr(0)
    _left_out: int = PrivateAttr(0)

    def mix(self, fresh: Sequence[ScoredGroup], reader: StoreReader, update: int, stream: Random) -> list[ScoredGroup]:
        """Return the groups with different returns, after the back-fill."""
        self._filled = 0
        filled = [one if any(successes(one, self.min_return)) else self._fill(one, reader) for one in fresh]
        kept = [one for one in filled if not ZeroVariance().reject(one)]
        self._left_out = len(filled) - len(kept)
        return kept

    def _fill(self, scored: ScoredGroup, reader: StoreReader) -> ScoredGroup:
        """Return the group with its task's newest success in place of the first member, or unchanged without one."""
        newest = reader.successes(scored.group.task.id, min_return=self.min_return, limit=1)
        for success, rewards in reader.load_trajectories(newest):
            self._filled += 1
            members = (success, *scored.group.trajectories[1:])
            return replace(
                scored, group=replace(scored.group, trajectories=members), rewards=[rewards, *scored.rewards[1:]]
            )
        return scored

    def conflict(self, loss: PolicyLoss, group_filters: Sequence[GroupFilter]) -> str:
        """Return the reason if the filter ``zero_variance`` hides the failed groups."""
        if any(isinstance(one, ZeroVariance) for one in group_filters):
            return (
                "the group filter `zero_variance` rejects every group that the replay buffer `success_backfill` could "
                "fill: set `group_filters = []`; the buffer leaves out groups whose returns are all equal"
            )
        return super().conflict(loss, group_filters)

    def metrics(self) -> dict[str, float]:
        """Return how many groups of the last batch were filled, and how many were left out."""
        return {"filled_groups": self._filled, "left_out_groups": self._left_out}
