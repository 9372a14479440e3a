"""How long an episode may be: interaction-scaled schedules (TTI, Shen et al. 2025).

A schedule moves the limit on turns with the number of updates done; the token limits stay. One horizon a group: its
members are compared, so they must play the same game.
"""

from abc import abstractmethod
from typing import Annotated

from pydantic import Field, model_validator

from ....records import Horizon, Task
from ..registry import Extension


class Schedule(Extension):
    """The token limits of every schedule; what it gives in turns is its own."""

    max_tokens_per_turn: int = Field(32, ge=1)
    """Sampled tokens in one turn."""
    max_tokens_per_episode: int = Field(4096, ge=1)
    """Sampled tokens in an episode."""
    context: int = Field(1024, ge=2)
    """Prompt and answer together."""

    @abstractmethod
    def turns_at(self, update: int) -> int:
        """Turns allowed after ``update`` updates."""

    @abstractmethod
    def most(self) -> int:
        """The most turns this schedule ever gives."""

    def horizon(self, task: Task, update: int) -> Horizon:
        """See ``protocols.HorizonSchedule``."""
        return Horizon(self.turns_at(update), self.max_tokens_per_turn, self.max_tokens_per_episode, self.context)

    def longest(self) -> Horizon:
        """See ``protocols.HorizonSchedule``."""
        return Horizon(self.most(), self.max_tokens_per_turn, self.max_tokens_per_episode, self.context)


class Constant(Schedule):
    """One number of turns for the whole run."""

    turns: int = Field(12, ge=1)

    def turns_at(self, update: int) -> int:
        """Turns allowed after ``update`` updates."""
        return self.turns

    def most(self) -> int:
        """The most turns this schedule ever gives."""
        return self.turns


class Staged(Schedule):
    """``stages[k]`` turns until ``boundaries[k]`` updates are done; the last stage has no end."""

    stages: list[Annotated[int, Field(ge=1)]] = Field([10, 20, 30], min_length=1)
    boundaries: list[int] = Field([1, 3])

    @model_validator(mode="after")
    def _match(self) -> "Staged":
        if len(self.boundaries) != len(self.stages) - 1 or self.boundaries != sorted(self.boundaries):
            raise ValueError("boundaries must rise, one fewer than the stages")
        return self

    def turns_at(self, update: int) -> int:
        """Turns allowed after ``update`` updates."""
        return self.stages[sum(update >= boundary for boundary in self.boundaries)]

    def most(self) -> int:
        """The most turns any stage gives."""
        return max(self.stages)


class Additive(Constant):
    """``start`` turns, ``step`` more every ``every`` updates, ``turns`` at most."""

    start: int = Field(4, ge=1)
    step: int = Field(1, ge=1)
    every: int = Field(10, ge=1)

    def turns_at(self, update: int) -> int:
        """``min(start + step * (update // every), turns)``."""
        return min(self.start + self.step * (update // self.every), self.turns)


class Multiplicative(Constant):
    """``start * (1 + update // every)`` turns, ``turns`` at most."""

    start: int = Field(4, ge=1)
    every: int = Field(10, ge=1)

    def turns_at(self, update: int) -> int:
        """``min(start * (1 + update // every), turns)``."""
        return min(self.start * (1 + update // self.every), self.turns)
