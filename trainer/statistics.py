"""Success rates with their intervals."""

from collections.abc import Sequence
from math import nan, sqrt

Z95 = 1.959963984540054
"""Standard normal quantile of a two-sided 95 % interval."""


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share; NaN, NaN without trials."""
    if not trials:
        return nan, nan
    share, z2 = successes / trials, Z95**2
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = Z95 * sqrt(share * (1 - share) / trials + z2 / (4 * trials**2)) / (1 + z2 / trials)
    return max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half))


def success_rate(verdicts: Sequence[bool | None]) -> float:
    """Share of True; NaN where no verdict was ever given. A missing verdict beside given ones is no success."""
    if not any(verdict is not None for verdict in verdicts):
        return nan
    return sum(verdict is True for verdict in verdicts) / len(verdicts)
