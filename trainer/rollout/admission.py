"""When a new group may open: the one place where rollout waits for learning."""

from collections.abc import Mapping

from ...records import GroupState
from ..algorithms.registry import Extension


def capacity(counts: Mapping[GroupState, int], *, max_running: int, staleness: int, batch: int) -> int:
    """``min(max_running - running, (staleness + 1) * batch - (running + ready + leased))``, in groups; never negative.

    ``counts`` comes from the store, so filtered, failed, expired and consumed groups give their place back by
    themselves, and a resumed run starts from the truth. It bounds the mean lag only; ``staleness.sweep`` bounds each
    token's.
    """
    running = counts.get(GroupState.OPEN, 0)
    waiting = counts.get(GroupState.READY, 0) + counts.get(GroupState.LEASED, 0)
    return max(0, min(max_running - running, (staleness + 1) * batch - (running + waiting)))


class Capacity(Extension):
    """Open as many groups as the staleness bound and ``max_running`` leave room for."""

    def capacity(self, counts: Mapping[GroupState, int], *, max_running: int, staleness: int, batch: int) -> int:
        """See ``capacity``."""
        return capacity(counts, max_running=max_running, staleness=staleness, batch=batch)
