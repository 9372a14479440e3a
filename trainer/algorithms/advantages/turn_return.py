"""Return-to-go per turn with a leave-one-out baseline (RLOO, Kool et al. 2019)."""

from pydantic import Field

from ....records import ScoredGroup
from ..groups import PerTurn
from ._returns import returns_to_go
from .base import GroupAdvantage


class TurnReturn(GroupAdvantage):
    """Each turn gets its return-to-go minus a leave-one-out baseline: the mean return-to-go of the other members.

    Against a member that is still playing at the turn, both returns-to-go count. Against a member whose episode has
    ended, both whole returns count. With ``R`` the discounted return, ``G`` the return-to-go, ``C`` the discounted
    reward collected before the turn and ``n`` members::

        A_i,t = 1 / (n - 1) * sum over j != i of (G_i,t - G_j,t  if j is alive at t  else  R_i - R_j)

    ``R_i - R_j`` is ``gamma**t * G_i,t - (R_j - C_i,t)``: the term of the discounted objective, in units of the first
    turn. The value subtracted from the member's return-to-go depends on the other members and on ``C_i,t`` only, never
    on the action at the turn. The gradient is therefore unbiased without discount. With discount, it is so up to a
    factor per turn between ``gamma**t``, that of the discounted objective, where all other members have ended, and 1,
    where all are alive. Nothing is divided by ``gamma**t``: an advantage is at most the
    largest difference of two returns-to-go. Without discount and with a reward at the last turn only, every turn gets
    the advantage of RLOO (Kool et al. 2019).
    """

    gamma: float = Field(1.0, ge=0, le=1)
    """Discount per turn."""

    def of_group(self, scored: ScoredGroup) -> PerTurn:
        """Return one advantage per turn."""
        rewards = scored.rewards
        to_go = [returns_to_go(turns, self.gamma) for turns in rewards]
        whole = [turns[0] if turns else 0.0 for turns in to_go]
        others = len(rewards) - 1

        def advantage(i: int, turn: int) -> float:
            gaps = [
                to_go[i][turn] - to_go[j][turn] if turn < len(to_go[j]) else whole[i] - whole[j]
                for j in range(len(rewards))
                if j != i
            ]
            return sum(gaps) / others if others else 0.0

        return [[advantage(i, turn) for turn in range(len(turns))] for i, turns in enumerate(rewards)]
