"""APRIL's over-provisioning (Zhou et al. 2025, arXiv:2509.18521), applied to the members of a group.

APRIL keeps more rollouts in flight than it needs, and aborts the rest as soon as the wanted number has ended, so that a
batch does not wait for its longest rollouts. Here a group of ``n`` wanted members opens ``n + extra`` and closes once
``n`` have a scored episode. Dropped members stay in the store and are not continued: APRIL's continuation of an aborted
rollout under the next policy needs an environment that stays alive between updates.

The group then holds the first ``n`` episodes to end, which favors short ones.
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

    def members(self, size: int) -> int:
        """Return ``size + extra``."""
        return size + self.extra

    def decide(self, view: GroupView, stream: Random) -> Sequence[Decision]:
        """Close the group if its wanted number of members has a scored episode."""
        wanted = view.group.size
        return [Close(f"{wanted} members have ended")] if len(view.scored) >= wanted else []
