"""A run: its numbers now, its evaluations, and the keys of its configuration that differ from the defaults."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from sqlalchemy import Connection

from ....base.rates import Rate
from ....records import GroupState, PolicyVersion
from ....store import queries
from ....store.database import Database
from ....store.queries import Updates
from ....store.queries.lineage import BestCheckpoint
from ....store.queries.run_details import DrivenRun
from ....store.queries.run_summaries import TRAIN, EvaluationMark, HeldOut, RunSummary, TaskResult
from ....store.queries.success_costs import NO_COST, SuccessCost
from ....trainer.config.defaults import ConfigKey, config_keys
from ..charts import Chart, Section, leading, sections
from ..given import Given
from ..series import POINTS_MAX

RECENT = 10
"""Updates whose mean a tile compares the newest one with."""
STEPS_MAX = 80
EVALUATIONS_MAX = 100
TILES = ("success", "reward", "staleness_mean")


@dataclass(frozen=True, slots=True)
class Change:
    """A number of the newest update, and its change."""

    value: float | None
    change: float | None
    """To the mean of at most ``RECENT`` updates before; None without one."""
    since: str
    """Those updates: up to the newest evaluation before the update, or up to the update."""


@dataclass(frozen=True, slots=True)
class Step:
    """One or several successive updates in the bar of steps."""

    first: int
    update: int
    """The last one."""
    success: float | None
    """Mean over their batches; of a long run, over those of every n-th update."""


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a run's training groups."""

    state: str
    label: str
    groups: int
    start: float
    """Share of the groups in the parts before."""
    width: float
    """Share of the groups in this part."""


@dataclass(frozen=True, slots=True)
class RunNow:
    """The part of a run's page that changes while it trains."""

    run: str
    driven: DrivenRun
    summary: RunSummary
    rate: Rate | None
    """Success of a run that does not train, with its interval; None without a counted episode."""
    tiles: Mapping[str, Change]
    tokens: int
    """Trained tokens."""
    idle_updates: int
    """Updates that trained on no token."""
    cost: SuccessCost
    shares: Sequence[Share]
    steps: Sequence[Step]
    """At most ``STEPS_MAX``."""
    every: int
    """1 if ``steps`` and the curves have all updates, n if they have those that n divides and the newest one."""
    evaluations: Sequence[HeldOut]
    """The newest ones, at most ``EVALUATIONS_MAX``, oldest first."""
    n_evaluations: int


@dataclass(frozen=True, slots=True)
class RunPage:
    """A run."""

    now: RunNow
    checkpoint: PolicyVersion | None
    """The newest version with a checkpoint."""
    best: BestCheckpoint | None
    config: Sequence[ConfigKey]
    charts: Sequence[Chart]
    """Those that come first; ``static/run.js`` shows the charts that have a value."""
    sections: Sequence[Section]
    """The others."""


def load_run(database: Database, given: Given) -> RunPage:
    """Return the page of a run."""
    run, now = given.path["run"], load_now(database, given)
    with database.read() as conn:
        checkpoint, best = queries.latest_checkpoint(conn, run), queries.best_checkpoint(conn, run)
    return RunPage(now, checkpoint, best, config_keys(now.driven.run.config), leading(), sections(given.text("open")))


def load_now(database: Database, given: Given) -> RunNow:
    """Return the part of a run's page that changes while it trains."""
    run = given.path["run"]
    driven = queries.driven_run(database, run)
    with database.read() as conn:
        groups, cancelled = queries.group_counts(conn, run), queries.cancelled_groups(conn, run)
        marks = queries.evaluation_marks(conn, [run]).get(run, [])
        updates = queries.thinned(conn, run, POINTS_MAX)
        metrics = _recent(conn, run, updates, marks)
        evaluations = queries.held_out(conn, marks[-EVALUATIONS_MAX:])
        return RunNow(
            run=run,
            driven=driven,
            summary=queries.run_summaries(conn, [driven.run])[run],
            rate=None if driven.run.kind == TRAIN else _rate(queries.task_results(conn, driven.run, None)),
            tiles={name: _change(metrics, name, evaluations) for name in TILES},
            tokens=queries.trained_tokens(conn, run),
            idle_updates=queries.idle_updates(conn, run),
            cost=queries.success_costs(conn, [run]).get(run, NO_COST),
            shares=_shares(driven, groups, cancelled),
            steps=_steps(queries.batch_values(conn, run, "success", updates)),
            every=updates.every,
            evaluations=evaluations,
            n_evaluations=len(marks),
        )


def _rate(results: Mapping[str, TaskResult]) -> Rate | None:
    rate = Rate.of((one.successes, one.counted) for one in results.values())
    return rate if rate.tasks else None


def _change(metrics: Sequence[Mapping[str, Any]], name: str, evaluations: Sequence[HeldOut]) -> Change:
    known = [(one["update"], one[name]) for one in metrics if isinstance(one.get(name), int | float)]
    if not known:
        return Change(None, None, "")
    newest, value = known[-1]
    evaluated = max((one for one in evaluations if one.update < newest), key=lambda one: one.update, default=None)
    if evaluated is not None and known[0][0] <= evaluated.update:
        before, since = (
            [one for update, one in known if update <= evaluated.update],
            f"since evaluation {evaluated.name}",
        )
    else:
        before, since = [one for _, one in known[:-1]], _before(min(RECENT, len(known) - 1))
    recent = before[-RECENT:]
    return Change(value, value - sum(recent) / len(recent) if recent else None, since)


def _before(updates: int) -> str:
    return "to the update before" if updates == 1 else f"to the {updates} updates before"


def _recent(
    conn: Connection, run: str, updates: Updates, evaluations: Sequence[EvaluationMark]
) -> list[dict[str, Any]]:
    """Return the metrics of the newest updates, and of the last ones up to the newest evaluation before."""
    if updates.last is None:
        return []
    newest = queries.batch_metrics(conn, run, Updates(updates.last - RECENT, updates.last))
    at = max((one.update for one in evaluations if one.update < updates.last), default=updates.last)
    before = Updates(max(at - RECENT + 1, 0), min(at, updates.last - RECENT - 1))
    return queries.batch_metrics(conn, run, before) + newest


def _steps(success: Mapping[int, float | None]) -> list[Step]:
    numbers, width, found = list(success), ceil(len(success) / STEPS_MAX), list[Step]()
    for start in range(0, len(numbers), width or 1):
        part = numbers[start : start + width]
        known = [value for number in part if (value := success[number]) is not None]
        first = found[-1].update + 1 if found else part[0]
        found.append(Step(first, part[-1], sum(known) / len(known) if known else None))
    return found


def _shares(driven: DrivenRun, groups: Mapping[GroupState, int], cancelled: int) -> list[Share]:
    """Return the training groups by what became of them; ``cancelled`` of the failed ones the run's end cut off."""
    has_ended = driven.run.status != "running"
    labels = {GroupState.READY: "ready, not needed" if has_ended else "ready", GroupState.LEASED: "in the learner"}
    counts = [(state.value, labels.get(state, state.value), count) for state, count in groups.items()]
    counts = [(state, label, count - cancelled * (state == "failed")) for state, label, count in counts]
    counts.append(("failed", "cut off by the end of the run", cancelled))
    total, start, found = sum(count for *_, count in counts), 0.0, []
    for state, label, count in counts:
        if count:
            found.append(Share(state, label, count, start, count / total))
            start += count / total
    return found
