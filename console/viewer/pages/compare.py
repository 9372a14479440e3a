"""Several runs: their numbers and curves, the settings in which they differ, and the tasks that decide."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....store import queries
from ....store.database import Database
from ....store.queries.run_summaries import TaskResult
from ....trainer.run.comparison import Comparison, compare, sign_test
from ..given import BadAddress, Given

RUNS_MAX = 8
TASKS_SHOWN = 30


@dataclass(frozen=True, slots=True)
class TaskDifference:
    """A task on which the first run and another one were evaluated."""

    task: str
    env_id: str
    options: Mapping[str, Any]
    split: str
    first: float
    """Success of the first run."""
    other: float

    @property
    def change(self) -> float:
        """The difference of success."""
        return self.other - self.first


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
    tasks: Sequence[TaskDifference]
    """Those with the largest differences."""


@dataclass(frozen=True, slots=True)
class ComparisonPage:
    """A comparison with the first of several runs."""

    names: Sequence[str]
    comparison: Comparison | None
    """None without two runs."""
    paired: Sequence[PairedTasks]
    known: Sequence[str]
    """The newest runs, to choose from."""


def load_comparison(database: Database, given: Given) -> ComparisonPage:
    """Return the comparison of the runs that ``runs`` names, with commas between them."""
    names = list(dict.fromkeys(name for name in (given.text("runs") or "").split(",") if name))
    if len(names) > RUNS_MAX:
        raise BadAddress(f"`runs` names {len(names)} runs; at most {RUNS_MAX} are compared")
    with database.read() as conn:
        known = [one.id for one in queries.list_runs(conn, limit=50)]
        rows = [queries.find_run(conn, name) for name in names]
        if len(names) < 2:
            return ComparisonPage(names, None, [], known)
        summaries = queries.run_summaries(conn, rows)
        results = [queries.task_results(conn, row, summaries[row.id].held_out) for row in rows]
    paired = [paired_tasks(name, results[0], other) for name, other in zip(names[1:], results[1:], strict=True)]
    return ComparisonPage(names, compare(database, names), paired, known)


def paired_tasks(run: str, first: Mapping[str, TaskResult], other: Mapping[str, TaskResult]) -> PairedTasks:
    """Return the comparison of two runs task by task."""
    common = [
        TaskDifference(task, one.env_id, one.options, one.split, one.success, other[task].success)
        for task, one in first.items()
        if one.counted and task in other and other[task].counted
    ]
    better, worse = (sum(sign * one.change > 0 for one in common) for sign in (1, -1))
    differing = sorted((one for one in common if one.change), key=lambda one: (-abs(one.change), one.change, one.task))
    return PairedTasks(
        run, better, worse, len(common) - better - worse, sign_test(better, worse), differing[:TASKS_SHOWN]
    )
