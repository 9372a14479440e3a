"""Several runs: their numbers and curves, the settings in which they differ, and the tasks that decide."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....store import queries
from ....store.database import Database
from ....store.queries.run_summaries import HeldOut, TaskResult
from ....trainer.run.comparison import ComparedRun, Comparison, compare, load_compared, sign_test
from ..charts import Section, sections
from ..given import BadAddress, Given
from .tasks import family_of

RUNS_MAX = 8
TASKS_SHOWN = 15
"""Tasks that became better, and tasks that became worse."""
LIKE_LENGTHS = 1.25
"""Runs whose numbers of updates differ by a larger factor did not train equally long."""
AXES = ("updates", "tokens", "time")
TASKS = ("all",)


@dataclass(frozen=True, slots=True)
class TaskDifference:
    """A task on which the first run and another one were evaluated."""

    id: str
    """Of the task."""
    env_id: str
    options: Mapping[str, Any]
    split: str
    seed: int
    first: float
    """Success of the first run."""
    other: float
    first_episode: str
    """Id of an episode of the first run."""
    other_episode: str

    @property
    def change(self) -> float:
        """The difference of success."""
        return self.other - self.first


@dataclass(frozen=True, slots=True)
class FamilyDifference:
    """The common tasks of one environment with its options, by the sign of their difference."""

    family: str
    worse: int
    better: int
    equal: int


@dataclass(frozen=True, slots=True)
class PairedTasks:
    """The tasks that the first run and another one have in common."""

    run: str
    better: int
    """Tasks on which the run succeeds more often than the first one."""
    worse: int
    equal: int
    p_value: float | None
    """Two-sided exact sign test over the tasks that differ; None without one."""
    families: Sequence[FamilyDifference]
    tasks: Sequence[TaskDifference]
    """Those with the largest differences, or all that differ, the ones that became worse first."""


@dataclass(frozen=True, slots=True)
class ComparisonPage:
    """A comparison with the first of several runs."""

    names: Sequence[str]
    comparison: Comparison | None
    """None without two runs."""
    paired: Sequence[PairedTasks]
    notes: Sequence[str]
    """The ways in which the newest evaluations were played differently: their difference is not of the policy alone."""
    axis: str
    """The values of the horizontal axis of the curves."""
    axes: Sequence[str]
    sections: Sequence[Section]
    """The charts that fold away; ``static/compare.js`` fills them."""


def load_comparison(database: Database, given: Given) -> ComparisonPage:
    """Return the comparison of the runs that ``runs`` names, with commas between them."""
    names = list(dict.fromkeys(name for name in (given.text("runs") or "").split(",") if name))
    if len(names) > RUNS_MAX:
        raise BadAddress(f"`runs` names {len(names)} runs; at most {RUNS_MAX} are compared")
    axis, folds = given.choice("axis", AXES) or AXES[0], sections(given.text("open"))
    if len(names) < 2:
        queries.driven_runs(database, names)
        return ComparisonPage(names, None, [], [], axis, AXES, [])
    runs = load_compared(database, names)
    most = None if given.choice("tasks", TASKS) else TASKS_SHOWN
    paired = [paired_tasks(name, runs[0].tasks, one.tasks, most) for name, one in zip(names[1:], runs[1:], strict=True)]
    comparison, played = compare(runs), [one.summary.held_out for one in runs]
    return ComparisonPage(names, comparison, paired, notes_on(comparison.runs, played), axis, AXES, folds)


def notes_on(runs: Sequence[ComparedRun], played: Sequence[HeldOut | None]) -> list[str]:
    """Return one line per run whose newest evaluation was played with other settings than that of the first run."""
    found = []
    first, base = runs[0], played[0]
    for run, held_out in zip(runs[1:], played[1:], strict=True):
        values = {"split": (first.split, run.split)}
        if base is not None and held_out is not None:
            values |= {name: (getattr(base, name), getattr(held_out, name)) for name in ("temperature", "samples")}
        differing = [
            f"{name} {other}, not {own}"
            for name, (own, other) in values.items()
            if own != other and "" not in (own, other)
        ]
        if differing:
            found.append(f"{run.run} was evaluated with {', '.join(differing)} as {first.run}")
        trained = run.kind == first.kind == "train"
        if trained and max(run.updates, first.updates) > LIKE_LENGTHS * min(run.updates, first.updates):
            found.append(
                f"{run.run} made {run.updates} updates and {first.run} {first.updates}: the evaluations are not of "
                "policies that trained equally long"
            )
    return found


def paired_tasks(
    run: str, first: Mapping[str, TaskResult], other: Mapping[str, TaskResult], most: int | None = TASKS_SHOWN
) -> PairedTasks:
    """Return the comparison of two runs task by task, with at most ``most`` tasks that became better, or worse."""
    common = []
    for task, one in first.items():
        its = other.get(task)
        if its is not None and one.counted and its.counted:
            named = task, one.env_id, one.options, one.split, one.seed
            common.append(TaskDifference(*named, one.success, its.success, one.example, its.example))
    better, worse = (sum(sign * one.change > 0 for one in common) for sign in (1, -1))
    falling = sorted((one for one in common if one.change < 0), key=lambda one: (one.change, one.id))
    rising = sorted((one for one in common if one.change > 0), key=lambda one: (-one.change, one.id))
    shown = [*falling[:most], *rising[:most]]
    equal, families = len(common) - better - worse, _families(common)
    return PairedTasks(run, better, worse, equal, sign_test(better, worse), families, shown)


def _families(common: Sequence[TaskDifference]) -> list[FamilyDifference]:
    of_family: dict[str, list[float]] = defaultdict(list)
    for one in common:
        of_family[family_of(one)].append(one.change)
    return [
        FamilyDifference(name, sum(one < 0 for one in of), sum(one > 0 for one in of), sum(one == 0 for one in of))
        for name, of in sorted(of_family.items())
    ]
