"""Held-out evaluation: which tasks, played once each, and what they say of a policy.

Pure but for the playing, which is passed in. Episodes that failed for the world's reasons are counted apart and are
in no rate.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ...agents.rollout.group_runner import kind, kind_of
from ...envs.tasks import make_task
from ...records import SCORED_STATUSES, Group, Horizon, Outcome, Purpose, Task
from ..config.sections import EnvironmentConfig
from ..learner.batch_stats import success_rate
from .intervals import wilson

SEED = 1_000_003
"""Held-out tasks are numbered from here, the same ones for every policy and every run."""
SEED_STRIDE = 100_000
"""Held-out tasks per evaluation seed: evaluations with two seeds share no task."""


@dataclass(frozen=True, slots=True)
class EvalResult:
    """How a policy did on held-out tasks."""

    name: str
    run: str
    tasks: int
    """Episodes that ended with an outcome."""
    failed: int
    """Episodes that failed for the world's reasons."""
    success: float
    low: float
    high: float
    """95 % Wilson interval."""
    reward: float
    turns: float
    families: dict[str, float] = field(default_factory=dict)
    """Success by environment of the mixture."""
    seconds: float = 0.0

    def json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def labels(environments: Sequence[EnvironmentConfig]) -> list[str]:
    """Names of a mixture's environments: the family of tasks where one was chosen, else the id; where that does not
    tell them apart their options' values, else their ids with options.
    """
    chosen = [str(one.options.get("family", one.id)) for one in environments]
    values = ["-".join(str(value) for value in one.options.values()) or one.id for one in environments]
    whole = [kind_of(one.id, one.options) for one in environments]
    return next((names for names in (chosen, values) if len(set(names)) == len(names)), whole)


def first_task(seed: int) -> int:
    """The number of the first held-out task of an evaluation seed."""
    return SEED + SEED_STRIDE * seed


def held_out(
    environments: Sequence[EnvironmentConfig], count: int, split: str = "test", seed: int = SEED
) -> list[Task]:
    """``count`` tasks, shared out evenly over the environments."""
    return [
        make_task(environments[i % len(environments)].id, seed + i, split, environments[i % len(environments)].options)
        for i in range(count)
    ]


def groups_of(run: str, name: str, tasks: Sequence[Task], horizon: Horizon) -> list[Group]:
    """A group of one for each task; never trained on."""
    return [
        Group(f"{run}:eval-{name}-{number}", run, task, horizon, 1, Purpose.EVAL) for number, task in enumerate(tasks)
    ]


def summarise(
    name: str,
    run: str,
    environments: Sequence[EnvironmentConfig],
    played: Sequence[tuple[Task, Outcome]],
    asked: int,
    seconds: float,
) -> EvalResult:
    """The result of an evaluation of ``asked`` tasks from how their episodes ended."""
    good = [(task, outcome) for task, outcome in played if outcome.status in SCORED_STATUSES]
    verdicts = [outcome.success for _, outcome in good]
    low, high = wilson(sum(verdict is True for verdict in verdicts), len(verdicts))
    families = {}
    for environment, name_of in zip(environments, labels(environments), strict=True):
        key = kind_of(environment.id, environment.options)
        families[name_of] = success_rate([outcome.success for task, outcome in good if kind(task) == key])
    return EvalResult(
        name=name,
        run=run,
        tasks=len(good),
        failed=asked - len(good),
        success=success_rate(verdicts),
        low=low,
        high=high,
        reward=sum(outcome.reward for _, outcome in good) / max(len(good), 1),
        turns=sum(outcome.turns for _, outcome in good) / max(len(good), 1),
        families=families,
        seconds=seconds,
    )
