"""The numbers of a page of runs: environments, updates, and the newest success and reward of each.

Two statements per page, whatever its length. A training run has the numbers of its newest surviving update and its
newest surviving evaluation; any other run those of its ended trajectories. No trajectory of a training run is read.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any, NamedTuple

from sqlalchemy import Connection, Integer, and_, case, cast, false, func, select

from ...base.rates import Rate
from ...records import Purpose
from ..schema import EVALUATION, RESULT, among, batch_item, metric, rollout_group, task, train_batch, trajectory
from ..schema import run as run_table
from .conditions import of_run, surviving
from .lists import RunRow
from .updates import evenly

TRAIN = "train"
"""The kind of a training run."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """The result of an evaluation on held-out tasks inside a training run."""

    name: str
    update: int
    rate: Rate
    by_environment: Mapping[str, Rate]
    """By environment of the mixture."""
    reward: float
    groups: str
    """The ids of its groups begin with this."""
    samples: int = 1
    """Episodes per task that were requested."""
    temperature: float | None = None
    """Sampling temperature, 0 for greedy; None if it was not stored."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The newest numbers of a run."""

    environments: Sequence[str]
    """Ids, in the order of the configuration."""
    updates: int
    success: float | None
    """Of the newest update's batch, or of all counted trajectories of a run without updates; None if there is none."""
    reward: float | None
    """Mean return of the same trajectories."""
    held_out: HeldOut | None
    """The newest evaluation of a training run."""
    staleness: float | None = None
    """Mean staleness of the tokens of the newest update's batch, in updates."""


def run_summaries(conn: Connection, runs: Sequence[RunRow]) -> dict[str, RunSummary]:
    """Return the summary of each of ``runs`` by id."""
    trained = _trained(conn, [run.id for run in runs if run.kind == TRAIN])
    played = _played(conn, [run.id for run in runs if run.kind != TRAIN])
    found = {}
    for run in runs:
        environments, success, reward = played.get(run.id, ((), None, None))
        updates, batch, held_out = trained.get(run.id, (0, {}, None))
        found[run.id] = RunSummary(
            environments=run.environments or list(environments),
            updates=updates,
            success=batch.get("success", success),
            reward=batch.get("reward", reward),
            held_out=held_out,
            staleness=batch.get("staleness_mean"),
        )
    return found


class EvaluationMark(NamedTuple):
    """An evaluation inside a training run, without its result."""

    no: int
    """``metric.no``"""
    update: int
    name: str


def evaluation_marks(conn: Connection, runs: Iterable[str]) -> dict[str, list[EvaluationMark]]:
    """Return the surviving evaluations of each of ``runs``, oldest first; a run without one is left out."""
    which = (
        select(run_table.c.id, metric.c.no, metric.c.update_no, metric.c.kind)
        .join(metric, metric.c.run_no == run_table.c.no)
        .where(metric.c.kind.startswith(EVALUATION), metric.c.abandoned == false())
        .order_by(metric.c.update_no, metric.c.no)
    )
    found: dict[str, list[EvaluationMark]] = defaultdict(list)
    for row in among(conn, which, run_table.c.id, runs):
        found[row.id].append(EvaluationMark(row.no, row.update_no, row.kind.removeprefix(EVALUATION)))
    return found


def held_out(conn: Connection, marks: Sequence[EvaluationMark]) -> list[HeldOut]:
    """Return the results of evaluations, in the given order."""
    rows = among(conn, select(metric.c.no, metric.c.data), metric.c.no, [one.no for one in marks])
    data = dict(map(tuple, rows))
    return [_held_out(one.name, one.update, data[one.no]) for one in marks]


def evaluations(conn: Connection, runs: Iterable[str], most: int | None = None) -> dict[str, list[HeldOut]]:
    """Return the surviving evaluations of each of ``runs``, oldest first; a run without one is left out.

    Args:
        most: per run; of more evaluations, every n-th is returned, the newest included.
    """
    marks = {run: evenly(some, most) for run, some in evaluation_marks(conn, runs).items()}
    found = iter(held_out(conn, [one for some in marks.values() for one in some]))
    return {run: list(islice(found, len(some))) for run, some in marks.items()}


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The counted episodes of one task."""

    env_id: str
    options: Mapping[str, Any]
    split: str
    seed: int
    counted: int
    successes: int
    example: str
    """Id of one of its episodes."""

    @property
    def success(self) -> float:
        """The share of successes; there is at least one counted episode."""
        return self.successes / self.counted


def task_results(conn: Connection, run: RunRow, held_out: HeldOut | None) -> dict[str, TaskResult]:
    """Return the results per task of an evaluation of a training run (``held_out``), or of all of another run.

    A task without a counted episode is included.
    """
    if run.kind == TRAIN and held_out is None:
        return {}
    evaluated = surviving(trajectory, run.id) & (trajectory.c.purpose == Purpose.EVAL.value)
    which = (
        select(
            *(task.c.id, task.c.env_id, task.c.options, task.c.split, task.c.seed),
            func.count(RESULT).label("counted"),
            func.coalesce(func.sum(cast(RESULT, Integer)), 0).label("successes"),
            func.max(case((RESULT.is_not(None), trajectory.c.id), else_="")).label("example"),
        )
        .select_from(trajectory)
        .join(rollout_group, rollout_group.c.no == trajectory.c.group_no)
        .join(task, task.c.no == rollout_group.c.task_no)
        .where(evaluated)
        .group_by(task.c.no)
        .order_by(task.c.id)
    )
    if held_out is not None:
        of_evaluation = of_run(rollout_group, run.id), rollout_group.c.purpose == Purpose.EVAL.value
        which = which.where(*of_evaluation, rollout_group.c.id.startswith(held_out.groups, autoescape=True))
    return {
        row.id: TaskResult(row.env_id, row.options, row.split, row.seed, row.counted, row.successes, row.example)
        for row in conn.execute(which)
    }


def trained_tokens(conn: Connection, run: str) -> int:
    """Return how many tokens the surviving updates of a run trained on, reused ones included."""
    tokens = func.coalesce(func.sum(batch_item.c.tokens_trained), 0)
    return int(conn.execute(select(tokens).where(surviving(batch_item, run))).scalar_one())


def tokens_by_run(conn: Connection, runs: Iterable[str]) -> dict[str, int]:
    """Return ``trained_tokens`` of each of ``runs`` that has an update, by id."""
    which = (
        select(run_table.c.id, func.sum(batch_item.c.tokens_trained).label("tokens"))
        .join(batch_item, batch_item.c.run_no == run_table.c.no)
        .where(batch_item.c.abandoned == false())
        .group_by(run_table.c.no)
    )
    return {row.id: int(row.tokens) for row in among(conn, which, run_table.c.id, runs)}


def _trained(conn: Connection, runs: Sequence[str]) -> dict[str, tuple[int, Mapping[str, Any], HeldOut | None]]:
    """Return of each training run the number of its newest update, the update's metrics, and the newest evaluation."""
    newest = (
        select(func.max(train_batch.c.update_no))
        .where(train_batch.c.run_no == run_table.c.no, train_batch.c.abandoned == false())
        .correlate(run_table)
        .scalar_subquery()
    )
    last = (
        select(metric.c.no)
        .where(metric.c.run_no == run_table.c.no, metric.c.kind.startswith(EVALUATION), metric.c.abandoned == false())
        .order_by(metric.c.update_no.desc(), metric.c.no.desc())
        .limit(1)
        .correlate(run_table)
        .scalar_subquery()
    )
    of_update = and_(
        train_batch.c.run_no == run_table.c.no, train_batch.c.update_no == newest, train_batch.c.abandoned == false()
    )
    columns = (
        train_batch.c.update_no,
        train_batch.c.metrics,
        metric.c.kind,
        metric.c.update_no.label("at"),
        metric.c.data,
    )
    which = (
        select(run_table.c.id, *columns)
        .join(train_batch, of_update, isouter=True)
        .join(metric, metric.c.no == last, isouter=True)
    )
    return {
        row.id: (
            row.update_no or 0,
            row.metrics or {},
            None if row.kind is None else _held_out(row.kind.removeprefix(EVALUATION), row.at, row.data),
        )
        for row in among(conn, which, run_table.c.id, runs)
    }


def _played(conn: Connection, runs: Sequence[str]) -> dict[str, tuple[list[str], float | None, float | None]]:
    """Return of each run without updates its environments, and success and mean return of its counted trajectories."""
    columns = (
        trajectory.c.env_id,
        func.count(RESULT).label("counted"),
        func.coalesce(func.sum(cast(RESULT, Integer)), 0).label("successes"),
        func.coalesce(func.sum(trajectory.c.reward).filter(RESULT.is_not(None)), 0.0).label("reward"),
    )
    which = (
        select(run_table.c.id, *columns)
        .join(trajectory, trajectory.c.run_no == run_table.c.no)
        .where(trajectory.c.ended_at.is_not(None))
        .group_by(run_table.c.no, trajectory.c.env_id)
        .order_by(trajectory.c.env_id)
    )
    rows: dict[str, list[Any]] = defaultdict(list)
    for row in among(conn, which, run_table.c.id, runs):
        rows[row.id].append(row)
    return {run: _total(of_run) for run, of_run in rows.items()}


def _total(rows: Sequence[Any]) -> tuple[list[str], float | None, float | None]:
    counted = sum(row.counted for row in rows)
    environments = [row.env_id for row in rows]
    if not counted:
        return environments, None, None
    return environments, sum(row.successes for row in rows) / counted, sum(row.reward for row in rows) / counted


def _held_out(name: str, update: int, data: Mapping[str, Any]) -> HeldOut:
    of_result = {field.name: data[field.name] for field in fields(Rate) if field.name in data}
    by_environment = {name: Rate.of_json(rate) for name, rate in data.get("by_environment", {}).items()}
    reward = data.get("reward") or 0.0
    return HeldOut(
        name,
        update,
        Rate.of_json(of_result),
        by_environment,
        reward,
        data["groups"],
        data.get("samples", 1),
        data.get("temperature"),
    )
