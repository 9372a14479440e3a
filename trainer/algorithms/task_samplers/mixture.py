"""A weighted mixture of environments."""

from collections.abc import Sequence
from random import Random

from ....records import Task
from .base import TaskSampler, WeightedEnvironment


class Mixture(TaskSampler):
    """Draw an environment by its weight, then a seed of its training split."""

    def propose(self, environments: Sequence[WeightedEnvironment], rng: Random) -> Task:
        """Return a task of the mixture."""
        return rng.choices(environments, [environment.weight for environment in environments])[0].draw(rng)
