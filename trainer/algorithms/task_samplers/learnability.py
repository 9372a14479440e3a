"""A mixture that prefers environments whose groups still have different returns.

Source: ours.

A group whose members all earn the same carries no signal, whether all fail or all succeed. Each environment's share is
its weight times a running estimate of the share of its groups with different returns (variance-based curriculum).
"""

from collections.abc import Sequence
from random import Random
from typing import ClassVar

from pydantic import Field, PrivateAttr

from ....envs.tasks import env_key, env_key_of
from ....records import ScoredGroup, Task
from .base import TaskSampler, WeightedEnvironment

MIN_REWARD_RANGE = 1e-6
"""Returns closer than this count as equal."""


class Learnability(TaskSampler):
    """Draw an environment by its weight times its learnability, then a seed of its training split."""

    ema_rate: float = Field(0.05, gt=0, le=1)
    """Weight of the newest group in the running estimate."""
    min_weight: float = Field(0.15, gt=0, le=1)
    """Lower bound of an environment's learnability, so that every environment is still drawn."""

    remembered: ClassVar[tuple[str, ...]] = ("_learnability",)

    _learnability: dict[str, float] = PrivateAttr(default_factory=dict)

    def propose(self, environments: Sequence[WeightedEnvironment], rng: Random) -> Task:
        """Return a task of the reweighted mixture."""
        estimates = [
            self._learnability.get(env_key_of(environment.id, environment.options), 1.0) for environment in environments
        ]
        weights = [
            one.weight * max(self.min_weight, estimate) for one, estimate in zip(environments, estimates, strict=True)
        ]
        return rng.choices(environments, weights)[0].draw(rng)

    def observe(self, scored: ScoredGroup) -> None:
        """Move the estimate of the group's environment."""
        returns = [sum(turns) for turns in scored.rewards]
        differs = float(len(returns) > 1 and max(returns) - min(returns) > MIN_REWARD_RANGE)
        key = env_key(scored.group.task)
        old = self._learnability.get(key, 1.0)
        self._learnability[key] = old + self.ema_rate * (differs - old)
