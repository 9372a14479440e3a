"""The numbers of several runs next to one another, and the settings in which they differ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import sqrt
from statistics import fmean, stdev
from typing import Any

from ...rates import Z95, Rate
from ...store import queries
from ...store.database import Database
from ...store.queries.run_summaries import TRAIN, TaskResult
from ..config.defaults import flat
from ..evaluation.heldout import stored_rate


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """The mean difference of success per task between a run and the first one."""

    tasks: int
    """Tasks that both runs were evaluated on."""
    mean: float
    low: float | None
    """95 % interval by the normal approximation; None if every task has the same difference."""
    high: float | None


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """A run of a comparison."""

    run: str
    kind: str
    status: str
    updates: int
    environments: Sequence[str]
    """Ids."""
    split: str
    """The split of the tasks of ``rate``, or several with commas; empty without one."""
    evaluation: str
    """Name of the newest evaluation of a training run; empty for other runs."""
    rate: Rate | None
    """Success in the newest evaluation of a training run, on all tasks of an evaluation."""
    by_environment: Mapping[str, Rate]
    difference: PairedDifference | None
    """To the first run; None for the first run, and without a common task."""
    batch_success: float | None
    """In the newest update's batch; None for a run without updates."""
    reward: float | None
    """Mean return in that batch, or of an evaluation."""
    tokens: int
    """Trained tokens, of all updates."""
    wall_s: float
    """From the start of the run to its end or, if it has not ended, to now. Includes the time before a resume."""
    tokens_per_success: float | None
    """Sampled tokens of the newest update's batch per episode of it that succeeded; None without a success."""
    seconds_per_success: float | None
    """Seconds of training of that update per episode of its batch that succeeded; None likewise."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Several runs."""

    runs: Sequence[ComparedRun]
    settings: Mapping[str, Mapping[str, Any]]
    """By configuration key, the value of each run that sets it, for the keys whose values differ between the runs that
    have the kind of the first one."""


def compare(database: Database, names: Sequence[str]) -> Comparison:
    """Return the numbers of runs. Raises NotFound."""
    with database.read() as conn:
        rows = [queries.find_run(conn, name) for name in names]
        summaries = queries.run_summaries(conn, rows)
        tasks = {row.id: queries.task_results(conn, row, summaries[row.id].held_out) for row in rows}
        tokens = {row.id: queries.trained_tokens(conn, row.id) for row in rows}
    status = {row.id: queries.driven_run(database, row.id).status for row in rows}
    now, found = datetime.now(UTC), []
    for row in rows:
        summary = summaries[row.id]
        is_training, held_out = row.kind == TRAIN, summary.held_out
        rate, by_environment = stored_rate(row, tasks[row.id], held_out)
        found.append(
            ComparedRun(
                row.id,
                row.kind,
                status[row.id],
                summary.updates,
                summary.environments,
                ", ".join(sorted({one.split for one in tasks[row.id].values()})),
                held_out.name if held_out else "",
                rate,
                by_environment,
                difference=None if row is rows[0] else paired(tasks[rows[0].id], tasks[row.id]),
                batch_success=summary.success if is_training else None,
                reward=summary.reward,
                tokens=tokens[row.id],
                wall_s=((row.ended_at or now) - row.created_at).total_seconds(),
                tokens_per_success=summary.tokens_per_success,
                seconds_per_success=summary.seconds_per_success,
            )
        )
    return Comparison(found, differing({row.id: row.config for row in rows if row.kind == rows[0].kind}))


def paired(first: Mapping[str, TaskResult], second: Mapping[str, TaskResult]) -> PairedDifference | None:
    """Return the mean difference ``second - first`` of success over their common tasks; None without one."""
    common = [task for task, one in first.items() if one.counted and task in second and second[task].counted]
    if not common:
        return None
    changes = [second[task].success - first[task].success for task in common]
    mean = fmean(changes)
    half = Z95 * stdev(changes) / sqrt(len(changes)) if len(set(changes)) > 1 else None
    return PairedDifference(len(changes), mean, *((None, None) if half is None else (mean - half, mean + half)))


def sign_test(better: int, worse: int) -> float | None:
    """Return the two-sided p-value of the exact sign test; None if no task differs."""
    total = better + worse
    if not total:
        return None
    tail = ways = 1
    for one in range(min(better, worse)):
        ways = ways * (total - one) // (one + 1)
        tail += ways
    return min(1.0, 2 * tail / (1 << total))


def differing(configs: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the keys whose values differ between the configurations of runs, with the value of each run."""
    keyed = {run: dict(flat(config)) for run, config in configs.items()}
    keys = sorted({key for values in keyed.values() for key in values} - {"name"})
    return {
        key: {run: values[key] for run, values in keyed.items() if key in values}
        for key in keys
        if any(key not in values or values[key] != next(iter(keyed.values())).get(key) for values in keyed.values())
    }
