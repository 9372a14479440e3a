"""DAPO's dynamic sampling: drop groups whose members all earned the same."""

from pydantic import Field

from ...groups import GroupResult
from .base import GroupFilter


class ZeroVariance(GroupFilter):
    """Reject a group whose members' returns differ by at most ``min_reward_range``: it carries no signal."""

    min_reward_range: float = Field(1e-6, ge=0)
    """A group whose rewards differ by less is filtered."""

    def reject(self, closed: GroupResult) -> str:
        """Return the reason where all returns are equal."""
        returns = [one.reward for one in closed.episodes]
        return "all returns equal" if max(returns) - min(returns) <= self.min_reward_range else ""
