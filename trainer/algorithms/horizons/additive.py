"""Linear growth of the number of turns (TTI, Shen et al. 2025, arXiv:2506.07976)."""

from pydantic import Field

from .base import HorizonSchedule


class AdditiveHorizon(HorizonSchedule):
    """``start`` turns, ``step`` more every ``interval`` updates, at most ``max_turns``."""

    max_turns: int = Field(12, ge=1)
    """Turns per episode, at most."""
    start: int = Field(4, ge=1)
    """Turns per episode at the first update."""
    step: int = Field(1, ge=1)
    """Turns added at each interval."""
    interval: int = Field(10, ge=1)
    """Updates after which another ``step`` turns are allowed."""

    def turns_at(self, update: int) -> int:
        """Return ``min(start + step * (update // interval), max_turns)``."""
        return min(self.start + self.step * (update // self.interval), self.max_turns)

    def longest_turns(self) -> int:
        """Return ``max_turns``."""
        return self.max_turns
