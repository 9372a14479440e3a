"""Lists of rows: runs, trajectories, groups and metrics, filtered, sorted and by page.

Filters and sort columns come from an allow-list, and every value is bound: no text becomes SQL.
"""

from hashlib import sha256
from typing import Any

from sqlalchemy import Column, Connection, RowMapping, Select, false, select, tuple_

from ..errors import StoreError
from ..schema import metric, rollout_group, trajectory
from ..schema import run as run_table
from .nearest import not_found

RUN_FILTERS: dict[str, Column[Any]] = {"status": run_table.c.status, "kind": run_table.c.kind}
RUN_SORTS: dict[str, Column[Any]] = {"created_at": run_table.c.created_at, "id": run_table.c.id}

TRAJECTORY_FILTERS: dict[str, Column[Any]] = {
    "run": trajectory.c.run_id,
    "group": trajectory.c.group_id,
    "status": trajectory.c.status,
    "env": trajectory.c.env_id,
    "purpose": trajectory.c.purpose,
    "policy": trajectory.c.policy,
    "source": trajectory.c.source,
    "success": trajectory.c.success,
    "abandoned": trajectory.c.abandoned,
    "deterministic": trajectory.c.deterministic,
}
TRAJECTORY_SORTS: dict[str, Column[Any]] = {
    "created_at": trajectory.c.created_at,
    "reward": trajectory.c.reward,
    "n_steps": trajectory.c.n_steps,
    "n_tokens": trajectory.c.n_tokens,
    "status": trajectory.c.status,
    "id": trajectory.c.id,
}

GROUP_FILTERS: dict[str, Column[Any]] = {
    "run": rollout_group.c.run_id,
    "state": rollout_group.c.state,
    "purpose": rollout_group.c.purpose,
    "task": rollout_group.c.task_id,
    "abandoned": rollout_group.c.abandoned,
}
GROUP_SORTS: dict[str, Column[Any]] = {"created_at": rollout_group.c.created_at, "id": rollout_group.c.id}


def run_row(conn: Connection, run: str) -> RowMapping:
    """Return the row of a run: id, kind, status, error, stop_requested, parent_id, config, … Raises NotFound."""
    row = conn.execute(select(run_table).where(run_table.c.id == run)).mappings().one_or_none()
    if row is None:
        raise not_found(conn, run_table, "run", run)
    return row


def run_uid(conn: Connection, run: str) -> str:
    """Return 32 hex digits that no run of another store has, whatever its name. Raises NotFound.

    Files of a run lie in a folder named after the run, and two stores may have a run of one name: the uid, a hash of
    name and time of creation, separates their files.
    """
    row = run_row(conn, run)
    return sha256(f"{row['id']} {row['created_at'].isoformat()}".encode()).hexdigest()[:32]


def list_runs(conn: Connection, *, limit: int = 100, after: str | None = None, **filters: Any) -> list[dict[str, Any]]:
    """Return a page of runs, newest first.

    Args:
        after: the id of the last run of the previous page.
        filters: a value, or a list of values, per key of ``RUN_FILTERS``.
    """
    return _page(conn, run_table, RUN_FILTERS, RUN_SORTS, filters, "created_at", True, limit, after)


def list_trajectories(
    conn: Connection,
    *,
    sort: str = "created_at",
    descending: bool = True,
    limit: int = 100,
    after: str | None = None,
    **filters: Any,
) -> list[dict[str, Any]]:
    """Return a page of trajectories, without steps and messages.

    Args:
        sort: a key of ``TRAJECTORY_SORTS``.
        after: the id of the last trajectory of the previous page.
        filters: a value, or a list of values, per key of ``TRAJECTORY_FILTERS``.

    Raises:
        StoreError: a filter or the sort is unknown.
    """
    return _page(conn, trajectory, TRAJECTORY_FILTERS, TRAJECTORY_SORTS, filters, sort, descending, limit, after)


def list_groups(
    conn: Connection, *, limit: int = 100, after: str | None = None, descending: bool = True, **filters: Any
) -> list[dict[str, Any]]:
    """Return a page of groups by age; filters are those of ``GROUP_FILTERS``. Raises StoreError."""
    return _page(conn, rollout_group, GROUP_FILTERS, GROUP_SORTS, filters, "created_at", descending, limit, after)


def list_metrics(conn: Connection, run: str, kind: str = "train") -> list[dict[str, Any]]:
    """Return the metrics of the surviving updates, each with its ``update``, in order."""
    which = (
        select(metric.c.update_no, metric.c.data)
        .where(metric.c.run_id == run, metric.c.kind == kind, metric.c.abandoned == false())
        .order_by(metric.c.update_no)
    )
    return [{"update": update, **data} for update, data in conn.execute(which)]


def _page(
    conn: Connection,
    table: Any,
    allowed: dict[str, Column[Any]],
    sorts: dict[str, Column[Any]],
    filters: dict[str, Any],
    sort: str,
    descending: bool,
    limit: int,
    after: str | None,
) -> list[dict[str, Any]]:
    """Return one page by keyset: the rows after id ``after``, in the order of (sort column, id)."""
    if sort not in sorts:
        raise StoreError(f"cannot sort by {sort!r}; there are {', '.join(sorts)}")
    statement: Select[Any] = select(table)
    for name, value in filters.items():
        if name not in allowed:
            raise StoreError(f"cannot filter by {name!r}; there are {', '.join(allowed)}")
        if isinstance(value, list | tuple | set | frozenset):
            statement = statement.where(allowed[name].in_(value))
        elif value is not None:
            statement = statement.where(allowed[name] == value)
    column = sorts[sort]
    if after is not None:
        mark = conn.execute(select(column).where(table.c.id == after)).one_or_none()
        if mark is None:
            raise not_found(conn, table, table.name, after)
        place = tuple_(column, table.c.id)
        statement = statement.where(place < (mark[0], after) if descending else place > (mark[0], after))
    order = (column.desc(), table.c.id.desc()) if descending else (column, table.c.id)
    return [dict(row) for row in conn.execute(statement.order_by(*order).limit(limit)).mappings()]
