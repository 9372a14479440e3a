"""A run: its numbers, its curves, its evaluations, and the keys of its configuration that differ from the defaults."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from ....records import GroupState, PolicyVersion
from ....store import queries
from ....store.database import Database
from ....store.queries.lineage import BestCheckpoint
from ....store.queries.run_details import DrivenRun
from ....store.queries.run_summaries import HeldOut, RunSummary
from ....trainer.config.defaults import ConfigKey, config_keys
from ..charts import Chart, charts_of
from ..given import Given

RECENT = 10
"""Updates whose mean a tile compares the newest one with."""
NO_UPDATE = -1


@dataclass(frozen=True, slots=True)
class Cursor:
    """The end of what a reader has of a run's series."""

    update: int = NO_UPDATE
    version: int = NO_UPDATE
    """Id of the version that the update made: a resume may replace the update by another one."""
    evaluations: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the cursor that ``str`` made; the beginning for any other text."""
        parts = text.split(".")
        is_cursor = len(parts) == 3 and all(one.isascii() and one.isdecimal() and len(one) < 10 for one in parts)
        return cls(int(parts[0]) - 1, int(parts[1]) - 1, int(parts[2])) if is_cursor else cls()

    def __str__(self) -> str:
        return f"{self.update + 1}.{self.version + 1}.{self.evaluations}"


@dataclass(frozen=True, slots=True)
class Series:
    """The metrics of a run's updates after a cursor, in columns."""

    run: str
    status: str
    cursor: Cursor
    """The end of this part."""
    charts: Sequence[Chart]
    """Those that this part has a value of."""
    updates: Sequence[int]
    values: Mapping[str, Sequence[float | None]]
    """By metric, one value per update."""
    evaluations: Sequence[HeldOut]


@dataclass(frozen=True, slots=True)
class Change:
    """A number of the newest update, and its change."""

    value: float | None
    change: float | None
    """To the mean of the ``RECENT`` updates before; None without one."""


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
class RunPage:
    """A run."""

    run: str
    driven: DrivenRun
    summary: RunSummary
    checkpoint: PolicyVersion | None
    """The newest version with a checkpoint."""
    best: BestCheckpoint | None
    tiles: Mapping[str, Change]
    shares: Sequence[Share]
    evaluations: Sequence[HeldOut]
    config: Sequence[ConfigKey]
    tokens: int
    """Trained tokens."""
    cursor: str
    charts: Sequence[Chart]
    last_update: int | None


def load_run(database: Database, given: Given) -> RunPage:
    """Return the page of a run."""
    run = given.path["run"]
    driven = queries.driven_run(database, run)
    with database.read() as conn:
        summary = queries.run_summaries(conn, [driven.run])[run]
        checkpoint, best = queries.latest_checkpoint(conn, run), queries.best_checkpoint(conn, run)
        groups, cancelled = queries.group_counts(conn, run), queries.cancelled_groups(conn, run)
        metrics = queries.batch_metrics(conn, run)
        evaluations = queries.evaluations(conn, [run]).get(run, [])
        tokens = queries.trained_tokens(conn, run)
    series = _series(run, driven.status, metrics, evaluations, 0)
    return RunPage(
        run=run,
        driven=driven,
        summary=summary,
        checkpoint=checkpoint,
        best=best,
        tiles={name: _change(metrics, name) for name in ("success", "reward", "entropy", "staleness_mean")},
        shares=_shares(driven, groups, cancelled),
        evaluations=evaluations,
        config=config_keys(driven.run.config),
        tokens=tokens,
        cursor=str(series.cursor),
        charts=series.charts,
        last_update=metrics[-1]["update"] if metrics else None,
    )


def load_series(database: Database, given: Given) -> Series:
    """Return the series of a run, or those after the query's ``cursor``."""
    run = given.path["run"]
    cursor = Cursor.parse(given.text("cursor") or "")
    found = new_series(database, run, cursor) or new_series(database, run, Cursor())
    assert found is not None  # noqa: S101 - the whole history is never behind
    return found


def new_series(database: Database, run: str, cursor: Cursor) -> Series | None:
    """Return the part of a run's series after ``cursor``; None if a resume abandoned what the reader has."""
    status = queries.driven_run(database, run).status
    with database.read() as conn:
        metrics = queries.batch_metrics(conn, run, after=cursor.update - 1)
        evaluations = queries.evaluations(conn, [run]).get(run, [])
    if cursor.update >= 0:
        if not metrics or (metrics[0]["update"], metrics[0]["version"]) != (cursor.update, cursor.version):
            return None
        metrics = metrics[1:]
    if len(evaluations) < cursor.evaluations:
        return None
    found = _series(run, status, metrics, evaluations, cursor.evaluations)
    return (
        found
        if metrics
        else Series(run, status, Cursor(cursor.update, cursor.version, len(evaluations)), [], [], {}, found.evaluations)
    )


def _series(
    run: str, status: str, metrics: Sequence[Mapping[str, Any]], evaluations: Sequence[HeldOut], known: int
) -> Series:
    last = metrics[-1] if metrics else {"update": NO_UPDATE, "version": NO_UPDATE}
    numbers = {
        name
        for one in metrics
        for name, value in one.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    charts = charts_of(numbers)
    names = [line.metric for chart in charts for line in chart.lines]
    return Series(
        run,
        status,
        Cursor(last["update"], last["version"], len(evaluations)),
        charts,
        [one["update"] for one in metrics],
        {name: [one.get(name) for one in metrics] for name in names},
        evaluations[known:],
    )


def _change(metrics: Sequence[Mapping[str, Any]], name: str) -> Change:
    known = [one[name] for one in metrics if isinstance(one.get(name), int | float)]
    before = known[-1 - RECENT : -1]
    return Change(known[-1] if known else None, known[-1] - sum(before) / len(before) if before else None)


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
