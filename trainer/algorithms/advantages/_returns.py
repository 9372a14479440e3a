"""Discounted returns, which several estimators share."""

from collections.abc import Sequence


def returns_to_go(rewards: Sequence[float], gamma: float = 1.0) -> list[float]:
    """Return the discounted sum of the rewards from each turn on."""
    total, out = 0.0, []
    for reward in reversed(rewards):
        total = reward + gamma * total
        out.append(total)
    return out[::-1]
