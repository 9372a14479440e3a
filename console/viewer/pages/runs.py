"""The runs of a store, newest first."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import isnan

from ....store import queries
from ....store.database import Database
from ....store.queries.run_details import INTERRUPTED
from ....store.queries.run_summaries import TRAIN, HeldOut, RunSummary
from ....store.queries.success_costs import NO_COST, SuccessCost
from ....store.run_lock import Driver
from ..given import Given

PAGE_ROWS = 50
SORTED_MAX = 500
"""The newest runs that match, which are sorted by another column than their age."""
SORTS: Mapping[str, Callable[["RunLine"], float | None]] = {
    "newest": lambda run: run.created_at.timestamp(),
    "success": lambda run: run.summary.success,
    "held_out": lambda run: run.summary.held_out.rate.success if run.summary.held_out else None,
    "updates": lambda run: run.summary.updates or None,
    "tokens": lambda run: run.tokens,
    "tokens_per_success": lambda run: _least(run.cost.tokens_per_success),
    "seconds_per_success": lambda run: _least(run.cost.seconds_per_success),
}
"""By name, the value of which the highest is first; a run without one is last."""
EVALUATIONS_DRAWN = 32
"""Per run."""
KINDS = ("train", "eval", "import")
STATUSES = ("running", INTERRUPTED, "finished", "failed", "stopped")


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run in a list."""

    id: str
    kind: str
    status: str
    is_visible: bool
    """Whether its driver is, if it has one: that of another host is not."""
    parent_id: str | None
    created_at: datetime
    ended_at: datetime | None
    error: str
    summary: RunSummary
    tokens: int | None
    """Trained tokens; None without an update."""
    cost: SuccessCost
    evaluations: Sequence[HeldOut]
    """Oldest first; of more than ``EVALUATIONS_DRAWN``, every n-th and the newest."""


@dataclass(frozen=True, slots=True)
class RunsPage:
    """A page of runs."""

    kind: str | None
    status: str | None
    environment: str | None
    name: str | None
    """A part of the names of the runs."""
    sort: str
    left_out: bool
    """Whether more than ``SORTED_MAX`` runs match: the older ones are not among the sorted ones."""
    kinds: Sequence[str]
    statuses: Sequence[str]
    environments: Sequence[str]
    """Those of the shown runs, to filter by."""
    runs: Sequence[RunLine]
    after: str | None
    """The run that the next page begins after; None on the last page, and in another order than by age."""
    next_start: int | None
    """The place that the next page begins with in another order; None on the last page."""


def load_runs(database: Database, given: Given) -> RunsPage:
    """Return a page of runs, filtered by ``kind``, ``status``, ``environment`` and a part of the name, and sorted."""
    kind, status = given.choice("kind", KINDS), given.choice("status", STATUSES)
    name, environment = given.text("name"), given.text("environment")
    sort, start = given.choice("sort", SORTS) or "newest", given.number("start")
    by_age = sort == "newest"
    found = queries.list_driven_runs(
        database,
        limit=PAGE_ROWS + 1 if by_age else SORTED_MAX + 1,
        after=given.text("after") if by_age else None,
        status=status,
        kind=kind,
        name=name,
        environment=environment,
    )
    shown = found[: PAGE_ROWS if by_age else SORTED_MAX]
    names = [one.run.id for one in shown]
    with database.read() as conn:
        summaries = queries.run_summaries(conn, [one.run for one in shown])
        costs = queries.success_costs(conn, [one.run.id for one in shown if one.run.kind == TRAIN])
        tokens, evaluations = queries.tokens_by_run(conn, names), queries.evaluations(conn, names, EVALUATIONS_DRAWN)
    lines = [
        RunLine(
            id=one.run.id,
            kind=one.run.kind,
            status=one.status,
            is_visible=one.driver is not Driver.UNKNOWN,
            parent_id=one.run.parent_id,
            created_at=one.run.created_at,
            ended_at=one.run.ended_at,
            error=one.run.error,
            summary=summaries[one.run.id],
            tokens=tokens.get(one.run.id),
            cost=costs.get(one.run.id, NO_COST),
            evaluations=evaluations.get(one.run.id, []),
        )
        for one in shown
    ]
    environments = sorted({one for line in lines for one in line.summary.environments})
    if not by_age:
        lines.sort(key=lambda line: _place(SORTS[sort](line)))
    of_page = lines if by_age else lines[start : start + PAGE_ROWS]
    return RunsPage(
        kind=kind,
        status=status,
        environment=environment,
        name=name,
        sort=sort,
        left_out=not by_age and len(found) > SORTED_MAX,
        kinds=KINDS,
        statuses=STATUSES,
        environments=environments,
        runs=of_page,
        after=shown[-1].run.id if by_age and len(found) > PAGE_ROWS else None,
        next_start=start + PAGE_ROWS if not by_age and start + PAGE_ROWS < len(lines) else None,
    )


def _least(value: float | None) -> float | None:
    """Return a cost as a value of which the lowest cost is the highest."""
    return None if value is None else -value


def _place(value: float | None) -> tuple[bool, float]:
    """Return the key of a value: the highest first, None and NaN last."""
    return (True, 0.0) if value is None or isnan(value) else (False, -value)
