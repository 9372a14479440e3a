"""GRPO's group-relative advantage (Shao et al. 2024, arXiv:2402.03300): one number per trajectory."""

from ....records import ScoredGroup
from ..groups import PerTurn
from ._returns import relative
from .base import GroupAdvantage


class GRPO(GroupAdvantage):
    """Each turn gets its trajectory's return minus the group's mean return."""

    normalize_std: bool = False
    """Divide by the group's standard deviation (population form), as in the GRPO paper. If all members fail,
    this scales small differences between their penalties up to unit size."""

    def of_group(self, scored: ScoredGroup) -> PerTurn:
        """Return one advantage per turn, equal for all turns of a trajectory."""
        own = relative([sum(turns) for turns in scored.rewards], self.normalize_std)
        return [[value] * len(turns) for value, turns in zip(own, scored.rewards, strict=True)]
