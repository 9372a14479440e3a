"""Credit: what each turn was worth against the other members of its group.

All take the rewards of the members whose status is an outcome, so an absent member changes no one's advantage by
anything but its absence. A group of one gives zeros.
"""

from math import sqrt

from ..protocols import PerTurn
from ..registry import Extension

EPSILON = 1e-6
"""Added to a standard deviation before dividing by it."""


def mean(values: list[float]) -> float:
    """Arithmetic mean; of nothing, 0."""
    return sum(values) / len(values) if values else 0.0


def group_mean(rewards: PerTurn) -> PerTurn:
    """Each turn gets its trajectory's return minus the group's mean return (GRPO without the standard deviation)."""
    returns = [sum(turns) for turns in rewards]
    baseline = mean(returns)
    return [[total - baseline] * len(turns) for total, turns in zip(returns, rewards, strict=True)]


def group_normalized(rewards: PerTurn) -> PerTurn:
    """``group_mean`` divided by the group's standard deviation (GRPO; Shao et al. 2024, population form)."""
    returns = [sum(turns) for turns in rewards]
    baseline = mean(returns)
    deviation = sqrt(mean([(total - baseline) ** 2 for total in returns]))
    return [[a / (deviation + EPSILON) for a in turns] for turns in group_mean(rewards)]


def returns_to_go(rewards: list[float], gamma: float = 1.0) -> list[float]:
    """Discounted sum of the rewards from each turn on."""
    total, out = 0.0, []
    for reward in reversed(rewards):
        total = reward + gamma * total
        out.append(total)
    return out[::-1]


def turn_return(rewards: PerTurn, gamma: float = 1.0) -> PerTurn:
    """Return-to-go against the other members, one pair at a time, then averaged: a leave-one-out baseline per turn.

    Against a member that is still alive at the turn, both returns-to-go count. Against a member that has ended, its
    episode is over, so both whole returns count. With ``R`` the discounted return, ``G`` the return-to-go, ``C`` the
    discounted reward collected before the turn and ``n`` members::

        A_i,t = 1 / (n - 1) * sum over j != i of (G_i,t - G_j,t  if j is alive at t  else  R_i - R_j)

    ``R_i - R_j`` is ``gamma**t * G_i,t - (R_j - C_i,t)``: the term of the discounted objective, in units of the first
    turn. What is subtracted from the member's own return-to-go depends on the other members and on ``C_i,t`` only,
    never on the action at the turn, so it adds no bias. Nothing is divided by ``gamma**t``: the result is at most the
    largest difference of two returns-to-go. Without discount and with a reward at the last turn only, it is RLOO's
    (Kool et al. 2019) at every turn.
    """
    togo = [returns_to_go(turns, gamma) for turns in rewards]
    whole = [turns[0] if turns else 0.0 for turns in togo]

    def against_the_others(i: int, turn: int) -> float:
        return mean(
            [
                togo[i][turn] - togo[j][turn] if turn < len(togo[j]) else whole[i] - whole[j]
                for j in range(len(rewards))
                if j != i
            ]
        )

    return [[against_the_others(i, turn) for turn in range(len(turns))] for i, turns in enumerate(rewards)]


class GroupMean(Extension):
    """By trajectory, without the standard deviation."""

    def __call__(self, rewards: PerTurn) -> PerTurn:
        """See ``group_mean``."""
        return group_mean(rewards)


class GroupNormalised(Extension):
    """By trajectory, divided by the standard deviation. A small penalty becomes full size where all members fail
    alike.
    """

    def __call__(self, rewards: PerTurn) -> PerTurn:
        """See ``group_normalized``."""
        return group_normalized(rewards)


class TurnReturn(Extension):
    """By turn, against each other member, alive or ended."""

    gamma: float = 1.0

    def __call__(self, rewards: PerTurn) -> PerTurn:
        """See ``turn_return``."""
        return turn_return(rewards, self.gamma)
