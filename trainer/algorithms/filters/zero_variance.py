"""Whether a closed group is worth training on."""

from pydantic import Field

from ..protocols import GroupOutcome
from ..registry import Extension


class Informative(Extension):
    """Reject a group whose members' returns all lie within ``spread``: nothing tells them apart (DAPO's dynamic
    sampling).
    """

    spread: float = Field(1e-6, ge=0)

    def reject(self, closed: GroupOutcome) -> str:
        """See ``protocols.GroupFilter``."""
        returns = [one.reward for one in closed.outcomes]
        return "all returns equal" if max(returns) - min(returns) <= self.spread else ""
