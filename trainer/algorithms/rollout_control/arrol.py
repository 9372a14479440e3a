"""ARRoL's pruning toward a balanced group, with the reward so far in place of its learned quality head.

ARRoL (Xu et al. 2026, arXiv:2603.24840) predicts the success of partial rollouts with a head on the hidden states at a
detection length, and keeps ``K`` of them: the ``ceil(target * K)`` most promising ones and, for the rest, the least
promising ones. The survivors then contain successes and failures, and advantages are computed over them alone. Here the
detection length is a number of turns, and the prediction is the sum of the rewards so far, so an environment needs
rewards before its end.
"""

from collections.abc import Sequence
from math import ceil
from random import Random

from pydantic import Field

from ....agents.rollout.control import Decision, Drop, GroupView, MemberView
from .base import RolloutController


class BalancedPruning(RolloutController):
    """Once every member has taken ``after_turns`` turns or ended, keep ``keep`` members and drop the others."""

    keep: int = Field(default=4, ge=2)
    """Members that survive; a member that has ended is never dropped."""
    after_turns: int = Field(default=3, ge=1)
    """Turns of each member before the group is pruned."""
    target: float = Field(default=0.5, ge=0.0, le=1.0)
    """Share of the survivors taken from the highest rewards; the others have the lowest."""

    def decide(self, view: GroupView, stream: Random) -> Sequence[Decision]:
        """Drop the running members outside the two ends of the ranking."""
        alive = [*view.running, *view.scored]
        waiting = any(one.running and len(one.turns) < self.after_turns for one in alive)
        if waiting or not self._arrived(view.latest) or len(alive) <= self.keep:
            return []
        ranked = sorted(alive, key=lambda one: (one.reward, one.member))
        low = self.keep - ceil(self.target * self.keep)
        pruned = ranked[low : len(ranked) - (self.keep - low)]
        reason = f"{self.keep} of {len(alive)} members survive"
        return [Drop(one.member, reason) for one in pruned if one.running]

    def _arrived(self, latest: MemberView) -> bool:
        """Whether this call is about the turn or the end with which ``latest`` reached the point of pruning."""
        turns = len(latest.turns)
        return turns == self.after_turns if latest.running else turns <= self.after_turns
