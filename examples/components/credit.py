"""ADORA (arXiv:2602.10019): weigh a group by whether its successes are longer than its failures."""

from statistics import fmean, pstdev

from pydantic import Field
from turnwise.records import ScoredGroup
from turnwise.trainer.algorithms.advantages.base import GroupAdvantage
from turnwise.trainer.algorithms.groups import Credit, successes


class Adora(GroupAdvantage):
    """GRPO's advantage, with less weight on groups without a length advantage."""

    low_weight: float = Field(0.1, ge=0)
    """Weight of a group that has successes, none of which is longer than the failures are on average."""

    def of_group(self, scored: ScoredGroup) -> Credit:
        """Return one advantage per turn."""
        returns = [sum(turns) for turns in scored.rewards]
        outcomes = list(zip(scored.rewards, successes(scored), strict=True))
        won = [len(turns) for turns, success in outcomes if success]
        lost = [len(turns) for turns, success in outcomes if not success]
        weight = self.low_weight if won and lost and max(won) <= fmean(lost) else 1.0
        mean = fmean(returns) if returns else 0.0
        scale = weight / (pstdev(returns, mean) + 1e-6) if returns else 0.0
        return [[scale * (total - mean)] * len(turns) for total, turns in zip(returns, scored.rewards, strict=True)]
