"""The runs of a store, newest first."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ....store import queries
from ....store.database import Database
from ....store.queries.run_details import INTERRUPTED
from ....store.queries.run_summaries import HeldOut, RunSummary
from ..given import Given

PAGE_ROWS = 50
KINDS = ("train", "eval")
STATUSES = ("running", INTERRUPTED, "finished", "failed", "stopped")


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run in a list."""

    id: str
    kind: str
    status: str
    parent_id: str | None
    created_at: datetime
    ended_at: datetime | None
    error: str
    summary: RunSummary
    evaluations: Sequence[HeldOut]
    """Oldest first."""


@dataclass(frozen=True, slots=True)
class RunsPage:
    """A page of runs."""

    kind: str | None
    status: str | None
    kinds: Sequence[str]
    statuses: Sequence[str]
    runs: Sequence[RunLine]
    after: str | None
    """The run that the next page begins after; None on the last page."""


def load_runs(database: Database, given: Given) -> RunsPage:
    """Return a page of runs, filtered by ``kind`` and ``status``."""
    kind, status = given.choice("kind", KINDS), given.choice("status", STATUSES)
    found = queries.list_driven_runs(database, limit=PAGE_ROWS + 1, after=given.text("after"), status=status, kind=kind)
    shown = found[:PAGE_ROWS]
    with database.read() as conn:
        summaries = queries.run_summaries(conn, [one.run for one in shown])
        evaluations = queries.evaluations(conn, [one.run.id for one in shown])
    lines = [
        RunLine(
            id=one.run.id,
            kind=one.run.kind,
            status=one.status,
            parent_id=one.run.parent_id,
            created_at=one.run.created_at,
            ended_at=one.run.ended_at,
            error=one.run.error,
            summary=summaries[one.run.id],
            evaluations=evaluations.get(one.run.id, []),
        )
        for one in shown
    ]
    after = shown[-1].run.id if len(found) > PAGE_ROWS else None
    return RunsPage(kind, status, KINDS, STATUSES, lines, after)
