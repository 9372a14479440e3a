"""Credit: what each turn was worth against the other members of its group.

All take the rewards of the members whose status is an outcome, so an absent member changes no one's advantage by
anything but its absence. A group of one gives zeros.
"""

from math import sqrt

from .protocols import PerTurn
from .registry import Extension

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


def group_normalised(rewards: PerTurn) -> PerTurn:
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
    """Return-to-go minus the mean return-to-go of the members still alive at that turn.

    At a turn that only one member reaches there is nobody left to compare with, and the difference would be 0 however
    well or badly it ends. There the baseline is the group's mean discounted return less what the member has already
    collected, in the units of that turn; without discount the turn is credited with the trajectory's advantage, ``R_i
    - mean(R)``.
    """
    togo = [returns_to_go(turns, gamma) for turns in rewards]
    baseline = mean([turns[0] for turns in togo if turns])
    collected = [0.0] * len(rewards)
    out: PerTurn = [[] for _ in rewards]
    alone = len(rewards) < 2
    for turn in range(max((len(turns) for turns in rewards), default=0)):
        alive = [i for i, turns in enumerate(rewards) if turn < len(turns)]
        peers = mean([togo[i][turn] for i in alive])
        scale = gamma**turn
        for i in alive:
            if len(alive) > 1:
                out[i].append(togo[i][turn] - peers)
            elif alone or scale == 0.0:
                out[i].append(0.0)
            else:
                out[i].append(togo[i][turn] - (baseline - collected[i]) / scale)
            collected[i] += scale * rewards[i][turn]
    return out


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
        """See ``group_normalised``."""
        return group_normalised(rewards)


class TurnReturn(Extension):
    """By turn, against the members still alive."""

    gamma: float = 1.0

    def __call__(self, rewards: PerTurn) -> PerTurn:
        """See ``turn_return``."""
        return turn_return(rewards, self.gamma)
