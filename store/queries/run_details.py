"""A run with the state of its driver, and with everything that its page shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...records import GroupState, PolicyVersion
from ..database import Database
from ..run_lock import Driver, driver_of
from .groups import cancelled_groups, group_counts
from .lineage import latest_checkpoint, versions
from .lists import RunRow, find_run, list_runs
from .rewards import RewardSet, reward_sets
from .summaries import accounting, batch_metrics, failure_counts, status_counts

INTERRUPTED = "interrupted"
"""The status of a run that its stored status calls running and whose driver is gone."""


@dataclass(frozen=True, slots=True)
class DrivenRun:
    """A run and the state of its driver."""

    run: RunRow
    driver: Driver | None
    """None for a run that ended."""

    @property
    def status(self) -> str:
        """Its stored status, or ``INTERRUPTED``."""
        return INTERRUPTED if self.driver is Driver.GONE else self.run.status


@dataclass(frozen=True, slots=True)
class RunDetails:
    """A run with its counts. The surviving history only, except for ``statuses``."""

    driven: DrivenRun
    updates: int
    checkpoint: PolicyVersion | None
    """The newest version with a checkpoint."""
    groups: Mapping[GroupState, int]
    """Training groups by state; the failed ones without the cancelled ones."""
    cancelled: int
    """Training groups that failed only because the run ended."""
    statuses: Mapping[str, int]
    """Trajectories by status, for training and evaluation."""
    accounting: Mapping[str, int]
    failures: Mapping[str, int]
    """Failed training trajectories by status."""
    last_metrics: Mapping[str, Any] | None
    """The metrics of the newest update."""
    reward_sets: Sequence[RewardSet]


def driven_run(database: Database, run: str) -> DrivenRun:
    """Return a run with its driver. Raises NotFound."""
    with database.read() as conn:
        found = find_run(conn, run)
    return _with_drivers(database, [found])[0]


def list_driven_runs(
    database: Database, *, limit: int, after: str | None = None, status: str | None = None, kind: str | None = None
) -> list[DrivenRun]:
    """Return a page of runs with their drivers, newest first; arguments are as for ``list_runs``.

    Args:
        status: as ``DrivenRun.status`` returns it.
    """
    stored = "running" if status == INTERRUPTED else status
    found: list[DrivenRun] = []
    while True:
        with database.read() as conn:
            rows = list_runs(conn, limit=limit, after=after, status=stored, kind=kind)
        found += [one for one in _with_drivers(database, rows) if status in (None, one.status)]
        if len(rows) < limit or len(found) >= limit:
            return found[:limit]
        after = rows[-1].id


def run_details(database: Database, run: str) -> RunDetails:
    """Return a run with its counts, newest checkpoint, last metrics and reward sets. Raises NotFound."""
    driven = driven_run(database, run)
    with database.read() as conn:
        surviving = [version.update for version in versions(conn, run).values() if not version.abandoned]
        metrics = batch_metrics(conn, run)
        groups, cancelled = group_counts(conn, run), cancelled_groups(conn, run)
        return RunDetails(
            driven=driven,
            updates=max([0, *surviving]),
            checkpoint=latest_checkpoint(conn, run),
            groups={**groups, GroupState.FAILED: groups[GroupState.FAILED] - cancelled},
            cancelled=cancelled,
            statuses=status_counts(conn, run),
            accounting=accounting(conn, run),
            failures=failure_counts(conn, run),
            last_metrics=metrics[-1] if metrics else None,
            reward_sets=reward_sets(conn, run),
        )


def _with_drivers(database: Database, rows: Sequence[RunRow]) -> list[DrivenRun]:
    drivers = {row.id: driver_of(database, row.id) for row in rows if row.status == "running"}
    if drivers:  # read again: a driver records the end of its run and then releases the lock
        with database.read() as conn:
            rows = [find_run(conn, row.id) if row.id in drivers else row for row in rows]
    return [DrivenRun(row, drivers.get(row.id) if row.status == "running" else None) for row in rows]
