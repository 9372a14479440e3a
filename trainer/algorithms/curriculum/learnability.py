"""Which tasks: a mixture that moves towards the environments whose groups still tell their members apart.

Where every member of a group earns the same there is nothing to learn from it, whether all fail or all succeed. So each
environment's share is its weight times a running estimate of how often its groups were informative.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from pydantic import Field, PrivateAttr

from ....agents.rollout.group_runner import kind, kind_of
from ....envs.tasks import make_task
from ....records import Task
from ..protocols import GroupOutcome
from ..registry import Extension
from .mixture import SEEDS

if TYPE_CHECKING:
    from ...config.schema import EnvironmentConfig

SPREAD = 1e-6
"""Returns closer than this are the same."""


class Frontier(Extension):
    """Draw an environment by its weight times its promise, then a seed of its training split."""

    rate: float = Field(0.05, gt=0, le=1)
    """How fast the estimate follows: the weight of the newest group."""
    floor: float = Field(0.15, gt=0, le=1)
    """No environment's promise falls below this, so that none is forgotten."""

    _promise: dict[str, float] = PrivateAttr(default_factory=dict)

    def propose(self, environments: Sequence[EnvironmentConfig], rng: Random) -> Task:
        """See ``protocols.TaskSampler``."""
        promise = [self._promise.get(kind_of(one.id, one.options), 1.0) for one in environments]
        weights = [one.weight * max(self.floor, share) for one, share in zip(environments, promise, strict=True)]
        chosen = rng.choices(environments, weights)[0]
        return make_task(chosen.id, rng.randrange(SEEDS), "train", chosen.options)

    def update(self, closed: GroupOutcome) -> None:
        """Move the estimate of the group's environment."""
        returns = [one.reward for one in closed.outcomes]
        told = float(len(returns) > 1 and max(returns) - min(returns) > SPREAD)
        key = kind(closed.task)
        old = self._promise.get(key, 1.0)
        self._promise[key] = old + self.rate * (told - old)

    def state_dict(self) -> dict[str, Any]:
        """The estimates by kind of environment."""
        return dict(self._promise)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what ``state_dict`` gave."""
        self._promise = dict(state)
