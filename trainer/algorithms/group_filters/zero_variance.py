"""DAPO's dynamic sampling (Yu et al. 2025, arXiv:2503.14476): reject groups whose members all have the same return."""

from pydantic import Field

from ....records import ScoredGroup
from .base import GroupFilter


class ZeroVariance(GroupFilter):
    """Reject a group whose members' returns differ by at most ``min_reward_range``: it carries no signal."""

    min_reward_range: float = Field(1e-6, ge=0)
    """Largest difference of the returns in a group that is rejected."""

    def reject(self, scored: ScoredGroup) -> str:
        """Return a reason if the returns differ by at most ``min_reward_range``, else an empty string."""
        returns = [sum(turns) for turns in scored.rewards]
        return "all returns equal" if max(returns) - min(returns) <= self.min_reward_range else ""
