"""The base class of task samplers, and the mixture they draw from."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar

from ....envs.tasks import make_task
from ....records import Task
from ..component import Component

SEED_RANGE = 2**31
"""Task seeds are drawn below this."""


@dataclass(frozen=True, slots=True)
class WeightedEnvironment:
    """One environment of a mixture."""

    id: str
    weight: float = 1.0
    """Share of the groups, relative to the other environments."""
    options: Mapping[str, Any] = field(default_factory=dict)
    seeds: Sequence[int] | None = None
    """The seeds of its training tasks; None if every seed is a task."""

    def draw(self, rng: Random) -> Task:
        """Draw a task of the training split."""
        seed = rng.randrange(SEED_RANGE) if self.seeds is None else rng.choice(self.seeds)
        return make_task(self.id, seed, "train", self.options)


class TaskSampler(Component, ABC):
    """Chooses the task of the next group."""

    slot: ClassVar[str] = "task_sampler"
    default: ClassVar[str] = "mixture"

    @abstractmethod
    def propose(self, environments: Sequence[WeightedEnvironment], rng: Random) -> Task:
        """Return the next task; ``rng`` is this sampler's random stream."""
