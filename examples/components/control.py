"""End episodes of an agent that keeps writing invalid actions."""

from collections.abc import Sequence
from random import Random

from turnwise.agents.rollout.control import Decision, GroupView, Stop
from turnwise.trainer.algorithms.rollout_control.base import RolloutController


class StopInvalid(RolloutController):
    """Stop an episode after `limit` invalid actions in a row."""

    limit: int = 3
    """Invalid actions in a row that end an episode."""

    def decide(self, view: GroupView, stream: Random) -> Sequence[Decision]:
        last = view.latest.turns[-self.limit :]
        if not view.latest.running or len(last) < self.limit or any(turn.action_valid for turn in last):
            return []
        return [Stop(view.latest.member, f"{self.limit} invalid actions in a row", weight=0.5)]
