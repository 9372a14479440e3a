"""REINFORCE++ (Hu 2025, arXiv:2501.03262): returns whitened over all sampled tokens of the batch.

The baseline and the scale come from the whole batch, so a group whose members all have the same return still has
advantages: combine it with ``group_filters = []``. ``group_baseline`` subtracts the group's mean return first, which is
the paper's REINFORCE++-baseline.

The paper's rewards contain a penalty per token on the divergence from the reference policy, summed to the end of the
episode and whitened with the return. Here they do not: ``loss.reference_kl_coef`` with ``loss.kl_estimator = "k1"`` is
the nearest option, a penalty on the token's own advantage after whitening.
"""

from collections.abc import Sequence
from math import sqrt
from statistics import fmean

from pydantic import Field

from ....records import ScoredGroup
from ..groups import Credit, PerTurn, sampled_tokens
from ._returns import returns_to_go
from .base import AdvantageEstimator

MIN_VARIANCE = 1e-8
"""Lower bound of the variance by whose root the returns are divided."""


class ReinforcePP(AdvantageEstimator):
    """Each turn gets its return-to-go, less the batch's mean and divided by the batch's standard deviation."""

    gamma: float = Field(1.0, ge=0, le=1)
    """Discount per turn."""
    group_baseline: bool = False
    """Subtract the mean return of the group before whitening."""

    def __call__(self, groups: Sequence[ScoredGroup]) -> list[Credit]:
        """Return one advantage per turn; mean 0 and variance 1 over the sampled tokens of the batch."""
        values = [self._returns(scored) for scored in groups]
        counts = [[sampled_tokens(member) for member in scored.group.trajectories] for scored in groups]
        flat = [
            (value, count)
            for of_group, members in zip(values, counts, strict=True)
            for turns, tokens in zip(of_group, members, strict=True)
            for value, count in zip(turns, tokens, strict=True)
        ]
        total = max(sum(count for _, count in flat), 1)
        mean = sum(value * count for value, count in flat) / total
        variance = sum((value - mean) ** 2 * count for value, count in flat) / total
        scale = sqrt(max(variance, MIN_VARIANCE))
        return [[[(value - mean) / scale for value in turns] for turns in of_group] for of_group in values]

    def _returns(self, scored: ScoredGroup) -> PerTurn:
        to_go = [returns_to_go(turns, self.gamma) for turns in scored.rewards]
        if not self.group_baseline or not to_go:
            return to_go
        baseline = fmean(turns[0] if turns else 0.0 for turns in to_go)
        return [[value - baseline for value in turns] for turns in to_go]
