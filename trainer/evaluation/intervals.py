"""95 % intervals of success rates and of their differences."""

from math import hypot, nan, sqrt

Z95 = 1.959963984540054
"""Standard normal quantile of a two-sided 95 % interval."""


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share; NaN, NaN without trials."""
    if not trials:
        return nan, nan
    share, z2 = successes / trials, Z95**2
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = Z95 * sqrt(share * (1 - share) / trials + z2 / (4 * trials**2)) / (1 + z2 / trials)
    return max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half))


def newcombe(before: tuple[float, float, float], after: tuple[float, float, float]) -> tuple[float, float]:
    """Return the 95 % interval of the difference ``after - before`` of two shares, each ``(share, low, high)``.

    ``low`` and ``high`` are the Wilson interval. Newcombe 1998, Statistics in Medicine 17, 873-890, method 10. The
    method assumes independent shares; for shares of the same tasks it is usually wider than necessary.
    """
    (p1, l1, u1), (p2, l2, u2) = before, after
    return p2 - p1 - hypot(p2 - l2, u1 - p1), p2 - p1 + hypot(u2 - p2, p1 - l1)
