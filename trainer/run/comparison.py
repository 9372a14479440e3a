"""The numbers of several runs next to one another, and the settings in which they differ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import sqrt
from statistics import fmean, stdev
from typing import Any

from ...base.rates import Z95, Rate
from ...store import queries
from ...store.database import Database
from ...store.queries.run_details import DrivenRun
from ...store.queries.run_summaries import TRAIN, RunSummary, TaskResult
from ...store.queries.success_costs import NO_COST, SuccessCost
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
    """As in ``SuccessCost``: of the whole run."""
    seconds_per_success: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Several runs."""

    runs: Sequence[ComparedRun]
    settings: Mapping[str, Mapping[str, Any]]
    """By configuration key, the value of each run that sets it, for the keys whose values differ between the runs that
    have the kind of the first one."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """What a comparison reads of a run."""

    driven: DrivenRun
    summary: RunSummary
    tasks: Mapping[str, TaskResult]
    """The results per task of the newest evaluation of a training run, or of all of another run."""
    tokens: int
    """Trained tokens, of all updates."""
    cost: SuccessCost


def load_compared(database: Database, names: Sequence[str]) -> list[StoredRun]:
    """Return what a comparison of runs reads. Raises NotFound."""
    driven = queries.driven_runs(database, names)
    with database.read() as conn:
        summaries = queries.run_summaries(conn, [one.run for one in driven])
        costs = queries.success_costs(conn, [one.run.id for one in driven if one.run.kind == TRAIN])
        return [
            StoredRun(
                one,
                summary := summaries[one.run.id],
                queries.task_results(conn, one.run, summary.held_out),
                queries.trained_tokens(conn, one.run.id),
                costs.get(one.run.id, NO_COST),
            )
            for one in driven
        ]


def compare(runs: Sequence[StoredRun]) -> Comparison:
    """Return the numbers of runs, of which there is at least one."""
    now, found, first = datetime.now(UTC), [], runs[0]
    for one in runs:
        row, summary = one.driven.run, one.summary
        is_training, held_out = row.kind == TRAIN, summary.held_out
        rate, by_environment = stored_rate(row, one.tasks, held_out)
        found.append(
            ComparedRun(
                row.id,
                row.kind,
                one.driven.status,
                summary.updates,
                summary.environments,
                ", ".join(sorted({task.split for task in one.tasks.values()})),
                held_out.name if held_out else "",
                rate,
                by_environment,
                difference=None if one is first else paired(first.tasks, one.tasks),
                batch_success=summary.success if is_training else None,
                reward=summary.reward,
                tokens=one.tokens,
                wall_s=((row.ended_at or now) - row.created_at).total_seconds(),
                tokens_per_success=one.cost.tokens_per_success,
                seconds_per_success=one.cost.seconds_per_success,
            )
        )
    rows = [one.driven.run for one in runs]
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
