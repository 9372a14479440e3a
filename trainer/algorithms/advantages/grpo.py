"""GRPO's group-relative advantage (Shao et al. 2024, arXiv:2402.03300): one number per trajectory."""

from math import sqrt
from statistics import fmean

from ....records import ScoredGroup
from ..groups import PerTurn
from .base import GroupAdvantage

EPSILON = 1e-6
"""Added to the standard deviation before dividing by it."""


class GRPO(GroupAdvantage):
    """Each turn gets its trajectory's return minus the group's mean return."""

    normalize_std: bool = False
    """Divide by the group's standard deviation (population form), as in the GRPO paper. If all members fail,
    this scales small differences between their penalties up to unit size."""

    def of_group(self, scored: ScoredGroup) -> PerTurn:
        """Return one advantage per turn, equal for all turns of a trajectory."""
        returns = [sum(turns) for turns in scored.rewards]
        baseline = fmean(returns) if returns else 0.0
        scale = 1.0
        if self.normalize_std and returns:
            scale = sqrt(fmean((total - baseline) ** 2 for total in returns)) + EPSILON
        return [[(total - baseline) / scale] * len(turns) for total, turns in zip(returns, scored.rewards, strict=True)]
