"""Returns per turn and per token, their baselines and scales, which several estimators share."""

from collections.abc import Sequence
from math import sqrt
from statistics import fmean
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Values: TypeAlias = NDArray[np.float64]
"""One number per token of a trajectory, (tokens,)."""
EPSILON = 1e-6
"""Added to a standard deviation before dividing by it."""


def relative(values: Sequence[float], normalize_std: bool = True) -> list[float]:
    """Return the values less their mean, divided by their standard deviation (population form) or by 1."""
    if not values:
        return []
    mean = fmean(values)
    scale = sqrt(fmean((value - mean) ** 2 for value in values)) + EPSILON if normalize_std else 1.0
    return [(value - mean) / scale for value in values]


def returns_to_go(rewards: Sequence[float], gamma: float = 1.0) -> list[float]:
    """Return the discounted sum of the rewards from each turn on."""
    total, out = 0.0, []
    for reward in reversed(rewards):
        total = reward + gamma * total
        out.append(total)
    return out[::-1]


def leave_one_out(rewards: Sequence[Values]) -> list[Values]:
    """Return the rewards of each trajectory of a group less their leave-one-out baseline (RLOO, Kool et al. 2019).

    With ``n`` trajectories, ``r`` becomes ``r * n / (n - 1) - sum_j mean_j / (n - 1)``; with one, 0.
    """
    n = len(rewards)
    if n < 2:
        return [0.0 * values for values in rewards]
    baseline = sum(float(values.mean()) for values in rewards if len(values)) / (n - 1)
    return [values * (n / (n - 1)) - baseline for values in rewards]


def sums_to_go(rewards: Values) -> Values:
    """Return the sum of the rewards from each token on. Shape (tokens,)."""
    return rewards[::-1].cumsum()[::-1]


def largest_sum(rewards: Sequence[Values]) -> float:
    """Return the largest absolute value of all sums to go of all trajectories, each (tokens,)."""
    return max((float(np.abs(sums_to_go(values)).max(initial=0.0)) for values in rewards), default=0.0)
