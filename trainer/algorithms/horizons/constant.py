"""The same number of turns for the whole run."""

from pydantic import Field

from .base import HorizonSchedule


class ConstantHorizon(HorizonSchedule):
    """``max_turns`` turns for the whole run."""

    max_turns: int = Field(12, ge=1)
    """Turns per episode."""

    def turns_at(self, update: int) -> int:
        """Return ``max_turns``."""
        return self.max_turns

    def longest_turns(self) -> int:
        """Return ``max_turns``."""
        return self.max_turns
