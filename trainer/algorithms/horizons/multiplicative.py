"""Growth of the number of turns by multiples of the first (TTI, Shen et al. 2025, arXiv:2506.07976)."""

from pydantic import Field

from .base import HorizonSchedule


class MultiplicativeHorizon(HorizonSchedule):
    """``start * (1 + update // interval)`` turns, at most ``max_turns``."""

    max_turns: int = Field(12, ge=1)
    """Turns per episode, at most."""
    start: int = Field(4, ge=1)
    """Turns per episode at the first update."""
    interval: int = Field(10, ge=1)
    """Updates after which another ``start`` turns are allowed."""

    def turns_at(self, update: int) -> int:
        """Return ``min(start * (1 + update // interval), max_turns)``."""
        return min(self.start * (1 + update // self.interval), self.max_turns)

    def longest_turns(self) -> int:
        """Return ``max_turns``."""
        return self.max_turns
