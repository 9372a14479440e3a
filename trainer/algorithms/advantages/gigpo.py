"""GiGPO (Feng et al. 2025, arXiv:2505.10978): groups of episodes, and within them groups of turns in the same state.

Members of a group that were in the same state (the environment's ``state_key``) took different actions there, so their
returns-to-go compare those actions at no extra rollout. With ``R`` the return, ``G`` the discounted return-to-go and
``S`` the turns of all members in the state of turn ``(i, t)``::

    A_i,t = (R_i - mean R) / F  +  step_weight * (G_i,t - mean of G over S) / F_S

A state that one turn only was in gives that turn a second term of 0.
"""

from collections import defaultdict
from collections.abc import Sequence

from pydantic import Field, PrivateAttr

from ....records import ScoredGroup
from ..groups import Credit, PerTurn
from ._returns import relative, returns_to_go
from .base import GroupAdvantage


class GiGPO(GroupAdvantage):
    """The episode's advantage over the group, plus each turn's advantage over the turns in the same state."""

    gamma: float = Field(0.95, ge=0, le=1)
    """Discount per turn of the return-to-go."""
    step_weight: float = Field(1.0, ge=0)
    """Weight of the advantage over turns in the same state, the paper's omega."""
    normalize_std: bool = True
    """Divide both terms by the standard deviation of what they compare (population form); else by 1."""

    _compared: int = PrivateAttr(0)
    _turns: int = PrivateAttr(0)

    def __call__(self, groups: Sequence[ScoredGroup]) -> list[Credit]:
        """Return the advantages of each group."""
        self._compared = self._turns = 0
        return super().__call__(groups)

    def of_group(self, scored: ScoredGroup) -> PerTurn:
        """Return one advantage per turn; a turn without a state key gets its episode's advantage."""
        episodes = relative([sum(turns) for turns in scored.rewards], self.normalize_std)
        to_go = [returns_to_go(turns, self.gamma) for turns in scored.rewards]
        advantages = [[own] * len(turns) for own, turns in zip(episodes, to_go, strict=True)]
        anchors: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for i, member in enumerate(scored.group.trajectories):
            for t, step in enumerate(member.steps):
                if step.state_key:
                    anchors[step.state_key].append((i, t))
        for turns in anchors.values():
            compared = relative([to_go[i][t] for i, t in turns], self.normalize_std)
            for (i, t), own in zip(turns, compared, strict=True):
                advantages[i][t] += self.step_weight * own
        self._compared += sum(len(turns) for turns in anchors.values() if len(turns) > 1)
        self._turns += sum(map(len, to_go))
        return advantages

    def metrics(self) -> dict[str, float]:
        """Return the share of turns in the last batch whose state another turn of the group shared."""
        return {"shared_state_fraction": self._compared / max(self._turns, 1)}
