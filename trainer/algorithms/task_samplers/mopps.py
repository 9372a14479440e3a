"""MoPPS (Qu et al. 2025, arXiv:2507.04632): a posterior over the success rate of each task, sampled to choose tasks.

Every task has a Beta posterior of its success rate. A proposal draws one rate per candidate and takes the task whose
rate is nearest to ``target``: such a task is expected to give members different returns. After a group with success
rate ``s`` over ``n`` members, the posterior of its task moves, with the prior (1, 1) and the decay ``lambda``::

    alpha = lambda * alpha + (1 - lambda) * 1 + n * s
    beta  = lambda * beta  + (1 - lambda) * 1 + n * (1 - s)
"""

from collections.abc import Sequence
from random import Random
from statistics import fmean
from typing import ClassVar

from pydantic import Field, PrivateAttr

from ....errors import TurnwiseError
from ....records import SUCCESS_RETURN, ScoredGroup, Task
from ..groups import counted_successes
from .base import TaskSampler, WeightedEnvironment

PRIOR = 1.0
"""Both parameters of a task's posterior before its first group."""


class MoPPS(TaskSampler):
    """Draw an environment by its weight, then the candidate whose sampled success rate is nearest to ``target``."""

    decay: float = Field(0.5, ge=0, le=1)
    """Weight of the posterior before a group, the paper's lambda: the policy that it describes changes."""
    candidates: int = Field(16, ge=1)
    """Tasks drawn per proposal, of which one is taken."""
    target: float = Field(0.5, ge=0, le=1)
    """Success rate that is aimed at."""
    min_return: float = SUCCESS_RETURN
    """Return from which a completed episode counts as a success if its environment gives no verdict."""

    remembered: ClassVar[tuple[str, ...]] = ("_posteriors",)

    _posteriors: dict[str, tuple[float, float]] = PrivateAttr(default_factory=dict)

    def propose(self, environments: Sequence[WeightedEnvironment], rng: Random) -> Task:
        """Return the next task.

        Raises:
            TurnwiseError: the environment does not enumerate its tasks, so that no task would be seen again.
        """
        chosen = rng.choices(environments, [environment.weight for environment in environments])[0]
        if chosen.seeds is None:
            raise TurnwiseError(
                f"the task sampler `mopps` needs tasks that return, but `{chosen.id}` has a task for every seed: "
                "implement `tasks(split)`, or limit the tasks by an option such as `pool_size`"
            )
        tasks = [chosen.draw(rng) for _ in range(self.candidates)]
        rates = [rng.betavariate(*self.posterior(task.id)) for task in tasks]
        return min(zip(rates, tasks, strict=True), key=lambda one: abs(one[0] - self.target))[1]

    def posterior(self, task: str) -> tuple[float, float]:
        """Return both parameters of the posterior of a task."""
        return self._posteriors.get(task, (PRIOR, PRIOR))

    def observe(self, scored: ScoredGroup) -> None:
        """Move the posterior of the group's task."""
        found = counted_successes(scored, self.min_return)
        if not found:
            return
        alpha, beta = self.posterior(scored.group.task.id)
        kept, prior = self.decay, (1 - self.decay) * PRIOR
        won = sum(found)
        self._posteriors[scored.group.task.id] = (
            kept * alpha + prior + won,
            kept * beta + prior + len(found) - won,
        )

    def metrics(self) -> dict[str, float]:
        """Return the number of tasks seen and the mean of their expected success rates."""
        rates = [alpha / (alpha + beta) for alpha, beta in self._posteriors.values()]
        return {"tasks": len(rates), "success_rate": fmean(rates)} if rates else {"tasks": 0}
