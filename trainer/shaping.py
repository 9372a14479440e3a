"""Step rewards beyond the environment's own."""

from pydantic import Field

from ..records import Group
from .protocols import PerTurn
from .registry import Extension


class LengthPenalty(Extension):
    """Take ``per_turn`` from every turn: shorter is better, other things equal."""

    per_turn: float = Field(0.01, ge=0)

    def __call__(self, group: Group, rewards: PerTurn) -> PerTurn:
        """See ``protocols.RewardShaper``."""
        return [[reward - self.per_turn for reward in turns] for turns in rewards]
