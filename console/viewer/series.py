"""The series of a run after a cursor: the same for a whole page and for what is new in it.

Of a long run, a series has every n-th update and evaluation, the newest included; a span of updates is read finer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from sqlalchemy import Connection

from ...store import queries
from ...store.database import Database
from ...store.queries import Updates
from ...store.queries.run_details import DrivenRun
from ...store.queries.run_summaries import HeldOut
from ...store.queries.updates import evenly
from ...store.schema import PACE
from .charts import FAILURES, Chart, charts_of
from .given import Given

NO_UPDATE = -1
POINTS_MAX = 1_000
"""Points of a curve, about."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """The end of what a reader has of each series of a run."""

    update: int = NO_UPDATE
    version: int = NO_UPDATE
    """Id of the version that the update made: a resume may replace the update by another one."""
    evaluations: int = 0
    paced: int = NO_UPDATE
    """The last update whose pace the reader has: it is stored a moment after the update."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the cursor that ``str`` made; the beginning for any other text."""
        parts = text.split(".")
        is_cursor = len(parts) == 4 and all(one.isascii() and one.isdecimal() and len(one) < 10 for one in parts)
        if not is_cursor:
            return cls()
        update, version, evaluations, paced = map(int, parts)
        return cls(update - 1, version - 1, evaluations, paced - 1)

    def __str__(self) -> str:
        return f"{self.update + 1}.{self.version + 1}.{self.evaluations}.{self.paced + 1}"


@dataclass(frozen=True, slots=True)
class Columns:
    """Metrics of updates, in columns."""

    updates: Sequence[int]
    values: Mapping[str, Sequence[float | None]]
    """By metric, one value per update."""


@dataclass(frozen=True, slots=True)
class Series:
    """The metrics of a run after a cursor."""

    run: str
    status: str
    cursor: Cursor
    """The end of this part."""
    charts: Sequence[Chart]
    """Those that this part has a value of."""
    every: int
    """1 if ``updates`` has all updates of this part, n if it has those that n divides and the newest one."""
    updates: Sequence[int]
    values: Mapping[str, Sequence[float | None]]
    """By metric, one value per update."""
    seconds: Sequence[float]
    """From the start of the run to each update."""
    pace: Columns
    """The metrics that are stored after the update: rates and busy fractions."""
    evaluations: Sequence[HeldOut]
    """At most about ``POINTS_MAX``, the newest included."""


def load_series(database: Database, given: Given) -> Series:
    """Return the series of a run, those of the updates ``from`` ``to``, or those after the query's ``cursor``."""
    run = given.path["run"]
    if given.text("to"):
        driven, span = queries.driven_run(database, run), Updates(given.number("from"), given.number("to"))
        with database.read() as conn:
            return _series(conn, driven, Cursor(), span)
    cursor = Cursor.parse(given.text("cursor") or "")
    found = new_series(database, run, cursor) or new_series(database, run, Cursor())
    assert found is not None  # noqa: S101 - the whole history is never behind
    return found


def new_series(database: Database, run: str, cursor: Cursor) -> Series | None:
    """Return the part of a run's series after ``cursor``; None if a resume abandoned what the reader has."""
    driven = queries.driven_run(database, run)
    with database.read() as conn:
        if cursor.update >= 0:
            last = queries.batch_metrics(conn, run, Updates(cursor.update, cursor.update))
            if not last or last[0]["version"] != cursor.version:
                return None
        if len(queries.evaluation_marks(conn, [run]).get(run, ())) < cursor.evaluations:
            return None
        return _series(conn, driven, cursor, Updates(cursor.update + 1))


def _series(conn: Connection, driven: DrivenRun, cursor: Cursor, within: Updates) -> Series:
    """Return the series of updates, with the evaluations and the pace after a cursor, or those of a span."""
    run, before = driven.run.id, Updates(within.first - 1, within.first - 1)
    updates = queries.thinned(conn, run, POINTS_MAX, within)
    metrics, times = queries.batch_metrics(conn, run, updates), queries.update_times(conn, run, updates)
    paced_from = within.first if cursor.update == NO_UPDATE else cursor.paced + 1
    pace = queries.list_metrics(conn, run, PACE, replace(updates, first=paced_from))
    since = next(iter(queries.update_times(conn, run, before).values()), None)
    failures = queries.failures_per_update(conn, run, times, since)
    marks = queries.evaluation_marks(conn, [run]).get(run, [])
    fresh = marks[cursor.evaluations :]
    if within.last is not None:
        fresh = [one for one in fresh if within.first <= one.update <= within.last]
    evaluations = queries.held_out(conn, evenly(fresh, POINTS_MAX))
    for one in metrics:
        one |= {f"{FAILURES}{status}": count for status, count in failures.get(one["update"], {}).items()}
    for one in pace:
        one |= {
            name.replace("_fraction", "_s"): value * one["update_seconds"]
            for name, value in one.items()
            if name.endswith("_busy_fraction") and "update_seconds" in one
        }
    known, paced_known = _numbers(metrics), _numbers(pace)
    charts = charts_of(known | paced_known)
    names = {line.metric for chart in charts for line in chart.lines}
    last = metrics[-1] if metrics else {"update": cursor.update, "version": cursor.version}
    paced = pace[-1]["update"] if pace else cursor.paced
    return Series(
        run=run,
        status=driven.status,
        cursor=Cursor(last["update"], last["version"], len(marks), paced),
        charts=charts,
        every=updates.every,
        updates=[one["update"] for one in metrics],
        values=_columns(metrics, names & known),
        seconds=[(at - driven.run.created_at).total_seconds() for at in times.values()],
        pace=Columns([one["update"] for one in pace], _columns(pace, names & paced_known)),
        evaluations=evaluations,
    )


def _numbers(rows: Sequence[Mapping[str, Any]]) -> set[str]:
    found: set[str] = set()
    for one in rows:
        new = one.keys() - found
        found.update(name for name in new if isinstance(one[name], int | float) and not isinstance(one[name], bool))
    return found


def _columns(rows: Sequence[Mapping[str, Any]], names: set[str]) -> dict[str, list[float | None]]:
    """Return the columns of the metrics in ``names``."""
    return {name: [one.get(name) for one in rows] for name in sorted(names)}
