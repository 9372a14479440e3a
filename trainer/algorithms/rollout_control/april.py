"""APRIL's over-provisioning (Zhou et al. 2025, arXiv:2509.18521), applied to the members of a group.

APRIL keeps more rollouts in flight than it needs, and aborts the rest as soon as the wanted number has ended, so that a
batch does not wait for its longest rollouts. Here a group of ``n`` wanted members opens ``n + extra`` and closes once
``n`` have a scored episode. The group then holds the first ``n`` episodes to end, which favors short ones.

APRIL puts an aborted rollout, with its tokens, at the front of the data, and the next policy continues it. With
``recycle``, a member that has not ended is suspended after its current turn, and a member of the next group of the same
task continues it. This needs a restorable environment. The sweep of stale tokens replaces APRIL's option that masks the
tokens of earlier policies.
"""

from collections.abc import Sequence
from random import Random

from pydantic import Field

from ....agents.rollout.control import Close, Decision, GroupView
from .base import RolloutController


class OverProvision(RolloutController):
    """Open ``extra`` members per group, and close it once the wanted number has a scored episode."""

    extra: int = Field(default=2, ge=1)
    """Members per group beyond the group size."""
    recycle: bool = False
    """Whether to suspend the members that have not ended, instead of dropping them. Needs a restorable environment."""

    def members(self, size: int) -> int:
        """Return ``size + extra``."""
        return size + self.extra

    def decide(self, view: GroupView, stream: Random) -> Sequence[Decision]:
        """Close the group if its wanted number of members has a scored episode."""
        wanted = view.group.size
        return [Close(f"{wanted} members have ended", self.recycle)] if len(view.scored) >= wanted else []
