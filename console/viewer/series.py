"""The series of a run after a cursor: the same for a whole page and for what is new in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from ...store import queries
from ...store.database import Database
from ...store.queries.run_summaries import HeldOut
from ...store.schema import PACE
from .charts import FAILURES, Chart, charts_of
from .given import Given

NO_UPDATE = -1


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
    updates: Sequence[int]
    values: Mapping[str, Sequence[float | None]]
    """By metric, one value per update."""
    seconds: Sequence[float]
    """From the start of the run to each update."""
    pace: Columns
    """The metrics that are stored after the update: rates and busy fractions."""
    evaluations: Sequence[HeldOut]


def load_series(database: Database, given: Given) -> Series:
    """Return the series of a run, or those after the query's ``cursor``."""
    run = given.path["run"]
    cursor = Cursor.parse(given.text("cursor") or "")
    found = new_series(database, run, cursor) or new_series(database, run, Cursor())
    assert found is not None  # noqa: S101 - the whole history is never behind
    return found


def new_series(database: Database, run: str, cursor: Cursor) -> Series | None:
    """Return the part of a run's series after ``cursor``; None if a resume abandoned what the reader has."""
    driven = queries.driven_run(database, run)
    with database.read() as conn:
        metrics = queries.batch_metrics(conn, run, after=cursor.update - 1)
        evaluations = queries.evaluations(conn, [run]).get(run, [])
        times = queries.update_times(conn, run, after=cursor.update - 1)
        pace = queries.list_metrics(conn, run, PACE, after=cursor.paced)
        if cursor.update >= 0:
            if not metrics or (metrics[0]["update"], metrics[0]["version"]) != (cursor.update, cursor.version):
                return None
            metrics = metrics[1:]
        since = times.pop(cursor.update, None)
        failures = queries.failures_per_update(conn, run, times, since)
    if len(evaluations) < cursor.evaluations:
        return None
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
        cursor=Cursor(last["update"], last["version"], len(evaluations), paced),
        charts=charts,
        updates=[one["update"] for one in metrics],
        values=_columns(metrics, names & known),
        seconds=[(at - driven.run.created_at).total_seconds() for at in times.values()],
        pace=Columns([one["update"] for one in pace], _columns(pace, names & paced_known)),
        evaluations=evaluations[cursor.evaluations :],
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
