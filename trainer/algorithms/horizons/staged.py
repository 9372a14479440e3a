"""A few stages of constant length (TTI, Shen et al. 2025, arXiv:2506.07976)."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from .base import HorizonSchedule


class StagedHorizon(HorizonSchedule):
    """``stages[k]`` turns until ``boundaries[k]`` updates are done; the last stage has no end."""

    stages: list[Annotated[int, Field(ge=1)]] = Field([10, 20, 30], min_length=1)
    """Turns per episode of each stage."""
    boundaries: list[int] = Field([1, 3])
    """Update at which each stage after the first begins."""

    @model_validator(mode="after")
    def _match(self) -> Self:
        if len(self.boundaries) != len(self.stages) - 1 or self.boundaries != sorted(self.boundaries):
            raise ValueError("`boundaries` must rise, one fewer than the `stages`")
        return self

    def turns_at(self, update: int) -> int:
        """Return the turns of the stage that ``update`` belongs to."""
        return self.stages[sum(update >= boundary for boundary in self.boundaries)]

    def longest_turns(self) -> int:
        """Return the turns of the longest stage."""
        return max(self.stages)
