"""The episodes of a store or of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....records import Purpose, Status
from ....store import queries
from ....store.database import Database
from ....store.queries.lists import TrajectoryRow
from ..given import Given

PAGE_ROWS = 60
SORTS = ("created_at", "reward", "n_steps")


@dataclass(frozen=True, slots=True)
class TrajectoriesPage:
    """A page of episodes."""

    run: str | None
    status: str | None
    purpose: str | None
    env: str | None
    task: str | None
    versions: str | None
    """The first and the last id, such as ``3-8``."""
    success: str | None
    sort: str
    statuses: Sequence[str]
    purposes: Sequence[str]
    sorts: Sequence[str]
    trajectories: Sequence[TrajectoryRow]
    made_by: Mapping[str, Mapping[int, int]]
    """By run, and by id of a version that sampled, the number of the update that made it."""
    versions_after: Sequence[int]
    """The updates that made the ends of ``versions``."""
    after: str | None


def load_trajectories_page(database: Database, given: Given) -> TrajectoriesPage:
    """Return a page of episodes, newest first, or the highest value of ``sort`` first."""
    statuses, purposes = [one.value for one in Status], [one.value for one in Purpose]
    run, env, success = given.text("run"), given.text("env"), given.choice("success", ("true", "false"))
    status, purpose = given.choice("status", statuses), given.choice("purpose", purposes)
    sort = given.choice("sort", SORTS) or SORTS[0]
    task, versions = given.text("task"), given.text("versions")
    with database.read() as conn:
        if run is not None:
            queries.find_run(conn, run)
        rows = queries.list_trajectories(
            conn,
            sort=sort,
            limit=PAGE_ROWS + 1,
            after=given.text("after"),
            run=run,
            env=env,
            task=task,
            versions=given.span("versions"),
            status=status,
            purpose=purpose,
            success=None if success is None else success == "true",
        )
        shown = rows[:PAGE_ROWS]
        made_by = {
            one: queries.made_by(
                conn, one, {version for row in shown if row.run_id == one for version in _versions(row)}
            )
            for one in {row.run_id for row in shown}
        }
        span = given.span("versions") or ()
        of_span = queries.made_by(conn, run, span) if run is not None and span else {}
    after = shown[-1].id if len(rows) > PAGE_ROWS else None
    return TrajectoriesPage(
        *(run, status, purpose, env, task, versions, success, sort, statuses, purposes, SORTS, shown, made_by),
        *(sorted(of_span.values()), after),
    )


def _versions(row: TrajectoryRow) -> list[int]:
    return [one for one in (row.min_version, row.max_version) if one is not None]
