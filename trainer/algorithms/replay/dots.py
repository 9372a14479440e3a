"""Replay half of DOTS (Sun et al. 2025, arXiv:2506.05316): a share of each batch comes from a buffer of old groups.

The other half of the method, a task sampler that predicts the difficulty of tasks by attention to a few reference
tasks, is not implemented.

* The buffer holds the ``capacity`` groups that were trained on last (first in, first out).
* Eligible are the groups without a token older than ``max_staleness`` whose members have different returns (with
  rewards 0 and 1: a mean return other than 0 and 1), of each task the newest one.
* A batch of ``n`` leased groups gets ``round(n (1 - fresh_share) / fresh_share)`` eligible groups, drawn without
  replacement; fewer, as long as fewer are eligible.

The loss gets the behavior log-probabilities that were stored when the tokens were sampled. The buffer is a query over
the surviving history, and the component keeps no state: a resumed run reads the same groups and draws the same ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

from pydantic import Field, PrivateAttr

from ....records import GroupState, GroupSummary, ScoredGroup
from .base import ReplayBuffer

if TYPE_CHECKING:
    from ....store.queries import RunReader

MIN_RETURN_RANGE = 1e-6
"""Largest difference of the returns in a group that carries no signal."""


class Dots(ReplayBuffer):
    """Add earlier groups to the ``rollout.groups_per_batch`` fresh ones, which are ``fresh_share`` of the batch."""

    fresh_share: float = Field(0.5, gt=0, le=1)
    """Share of the groups of a batch that are fresh."""
    capacity: int = Field(512, ge=1)
    """Groups in the buffer."""

    _eligible: int = PrivateAttr(0)
    _reused: int = PrivateAttr(0)

    def mix(self, fresh: Sequence[ScoredGroup], reader: RunReader, update: int, stream: Random) -> list[ScoredGroup]:
        """Return the fresh groups, followed by groups of the buffer."""
        oldest = update - self.max_staleness
        # Update k trained a version that k - 1 updates or fewer had made.
        buffer = reader.groups(states={GroupState.CONSUMED}, min_update=oldest + 1, limit=self.capacity)
        found = eligible(buffer, oldest)
        wanted = round(len(fresh) * (1 - self.fresh_share) / self.fresh_share)
        chosen = stream.sample(found, min(wanted, len(found)))
        self._eligible, self._reused = len(found), len(chosen)
        return [*fresh, *reader.load([one.id for one in chosen])]

    def metrics(self) -> dict[str, float]:
        """Return how many groups the buffer could add to the last batch, and how many it added."""
        return {"eligible_groups": self._eligible, "reused_groups": self._reused}


def eligible(buffer: Sequence[GroupSummary], oldest_policy: int) -> list[GroupSummary]:
    """Return the newest group of each task with different returns, newest first.

    Args:
        buffer: groups, newest first.
        oldest_policy: lowest update number of a policy version whose tokens are reused.
    """
    newest: dict[str, GroupSummary] = {}
    for one in buffer:
        is_young = one.oldest_policy is not None and one.oldest_policy >= oldest_policy
        if is_young and max(one.returns) - min(one.returns) > MIN_RETURN_RANGE:
            newest.setdefault(one.task, one)
    return list(newest.values())
