"""Held-out tasks, and the result of playing them once each. Pure."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ...agents.rollout.group_runner import env_key, env_key_of
from ...envs.tasks import make_task
from ...records import SCORED_STATUSES, Outcome, Task, is_success
from ..config.sections import EnvironmentConfig
from ..learner.batch_stats import success_rate
from .intervals import wilson

SEED = 1_000_003
"""The first held-out task's number: the same tasks for every policy and every run."""
SEED_STRIDE = 100_000
"""Held-out tasks per evaluation seed: evaluations with different seeds share no task."""


@dataclass(frozen=True, slots=True)
class EvalResult:
    """Success of a policy on held-out tasks."""

    name: str
    run: str
    tasks: int
    """Scored episodes."""
    failed: int
    """Episodes that failed because of their environment, an engine or a worker; no rate includes them."""
    success: float
    low: float
    high: float
    """Upper end of the 95 % Wilson interval; ``low`` is its lower end."""
    reward: float
    turns: float
    by_environment: dict[str, float] = field(default_factory=dict)
    """Success by environment of the mixture."""
    seconds: float = 0.0

    def json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)


def labels(environments: Sequence[EnvironmentConfig]) -> list[str]:
    """Return a short, distinct name for each environment of a mixture.

    The names are the first of these candidates that are distinct: the option ``family`` (the id if there is none), the
    values of the options, the id with all options.
    """
    chosen = [str(one.options.get("family", one.id)) for one in environments]
    values = ["-".join(str(value) for value in one.options.values()) or one.id for one in environments]
    whole = [env_key_of(one.id, one.options) for one in environments]
    return next((names for names in (chosen, values) if len(set(names)) == len(names)), whole)


def first_task(seed: int) -> int:
    """Return the number of the first held-out task of an evaluation seed."""
    return SEED + SEED_STRIDE * seed


def held_out(
    environments: Sequence[EnvironmentConfig], count: int, split: str = "test", seed: int = SEED
) -> list[Task]:
    """Return ``count`` tasks, distributed evenly over the environments."""
    return [
        make_task(environments[i % len(environments)].id, seed + i, split, environments[i % len(environments)].options)
        for i in range(count)
    ]


def summarize(
    name: str,
    run: str,
    environments: Sequence[EnvironmentConfig],
    played: Sequence[tuple[Task, Outcome]],
    requested: int,
    seconds: float,
) -> EvalResult:
    """Return the result of an evaluation of ``requested`` tasks from the ends of their episodes."""
    good = [(task, outcome) for task, outcome in played if outcome.status in SCORED_STATUSES]
    succeeded = [is_success(outcome.success, outcome.status, outcome.reward) for _, outcome in good]
    low, high = wilson(sum(succeeded), len(succeeded))
    by_environment = {}
    for environment, name_of in zip(environments, labels(environments), strict=True):
        key = env_key_of(environment.id, environment.options)
        by_environment[name_of] = success_rate(
            [won for (task, _), won in zip(good, succeeded, strict=True) if env_key(task) == key]
        )
    return EvalResult(
        name=name,
        run=run,
        tasks=len(good),
        failed=requested - len(good),
        success=success_rate(succeeded),
        low=low,
        high=high,
        reward=sum(outcome.reward for _, outcome in good) / max(len(good), 1),
        turns=sum(outcome.turns for _, outcome in good) / max(len(good), 1),
        by_environment=by_environment,
        seconds=seconds,
    )
