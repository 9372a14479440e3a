"""Admission: compute how many groups may open. Only here does rollout wait for learning."""

from collections.abc import Mapping

from ...records import GroupState


def capacity(
    counts: Mapping[GroupState, int], *, max_concurrent_groups: int, max_staleness: int, groups_per_batch: int
) -> int:
    """Return how many groups may open, from the store's count of groups by state; never negative.

    ``min(max_concurrent_groups - running, (max_staleness + 1) * groups_per_batch - (running + waiting))``, where
    ``waiting`` counts the groups that are scoring, ready or leased.

    The counts come from the store, so filtered, failed, expired and consumed groups free their place without further
    bookkeeping, and a resumed run starts from the truth. This bounds the mean staleness only; ``samples.sweep``
    bounds that of each token.
    """
    running = counts.get(GroupState.OPEN, 0)
    waiting = sum(counts.get(state, 0) for state in (GroupState.SCORING, GroupState.READY, GroupState.LEASED))
    room = (max_staleness + 1) * groups_per_batch - (running + waiting)
    return max(0, min(max_concurrent_groups - running, room))
