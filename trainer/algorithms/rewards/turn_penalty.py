"""Step rewards beyond the environment's own."""

from typing import ClassVar

from pydantic import Field

from ....records import Group
from ..protocols import PerTurn
from ..registry import Extension


class LengthPenalty(Extension):
    """Take ``per_turn`` from every turn: shorter is better, other things equal."""

    needs_texts: ClassVar[bool] = False

    per_turn: float = Field(0.01, ge=0)

    def __call__(self, group: Group, rewards: PerTurn) -> PerTurn:
        """See ``protocols.RewardShaper``."""
        return [[reward - self.per_turn for reward in turns] for turns in rewards]
