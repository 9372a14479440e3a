"""Lists of rows: runs, trajectories, groups and metrics, filtered, sorted and by page.

Filters and sort columns come from an allow-list, and every value is bound: no text becomes SQL. Rows name other rows by
their ids (``run_id``, ``group_id``), and hold no content.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, RowMapping, Select, Table, false, select, tuple_

from ..errors import StoreError
from ..schema import RESULT, metric, no_of, rollout_group, task, trajectory
from ..schema import run as run_table
from .nearest import not_found

NULL = object()
"""The value of a filter for rows that have no value in that column."""

_parent = trajectory.alias("parent")
_parent_run = run_table.alias("parent_run")

RUN_FILTERS: dict[str, Column[Any]] = {"status": run_table.c.status, "kind": run_table.c.kind}
RUN_SORTS: dict[str, Column[Any]] = {"created_at": run_table.c.created_at}

TRAJECTORY_FILTERS: dict[str, ColumnElement[Any]] = {
    "run": trajectory.c.run_no,
    "group": trajectory.c.group_no,
    "status": trajectory.c.status,
    "env": trajectory.c.env_id,
    "purpose": trajectory.c.purpose,
    "policy": trajectory.c.policy,
    "source": trajectory.c.source,
    "success": RESULT,
    "abandoned": trajectory.c.abandoned,
    "deterministic": trajectory.c.deterministic,
}
TRAJECTORY_SORTS: dict[str, Column[Any]] = {
    "created_at": trajectory.c.created_at,
    "reward": trajectory.c.reward,
    "n_steps": trajectory.c.n_steps,
}

GROUP_FILTERS: dict[str, Column[Any]] = {
    "run": rollout_group.c.run_no,
    "state": rollout_group.c.state,
    "purpose": rollout_group.c.purpose,
    "task": rollout_group.c.task_no,
    "abandoned": rollout_group.c.abandoned,
}
GROUP_SORTS: dict[str, Column[Any]] = {"created_at": rollout_group.c.created_at}

_NAMED: dict[ColumnElement[Any], Table] = {
    trajectory.c.run_no: run_table,
    trajectory.c.group_no: rollout_group,
    rollout_group.c.run_no: run_table,
    rollout_group.c.task_no: task,
}
"""Filters by a reference: the value is the id of a row of this table."""

_HIDDEN = ("no", "run_no", "group_no", "task_no", "parent_no", "branched_from", "writer", "content_digest", "digest")
_CONTENT = ("final_observation", "final_observation_blob", "final_observation_hash", "extras")


def _shown(table: Table, hidden: tuple[str, ...]) -> list[Column[Any]]:
    return [column for column in table.c if column.name not in hidden]


RUN_ROWS: Select[Any] = select(*_shown(run_table, _HIDDEN), _parent_run.c.id.label("parent_id")).join(
    _parent_run, _parent_run.c.no == run_table.c.parent_no, isouter=True
)
TRAJECTORY_ROWS: Select[Any] = (
    select(
        *_shown(trajectory, _HIDDEN + _CONTENT),
        run_table.c.id.label("run_id"),
        rollout_group.c.id.label("group_id"),
        _parent.c.id.label("branched_from"),
    )
    .join(run_table, run_table.c.no == trajectory.c.run_no)
    .join(rollout_group, rollout_group.c.no == trajectory.c.group_no)
    .join(_parent, _parent.c.no == trajectory.c.branched_from, isouter=True)
)
GROUP_ROWS: Select[Any] = (
    select(
        *_shown(rollout_group, _HIDDEN),
        run_table.c.id.label("run_id"),
        task.c.id.label("task_id"),
    )
    .join(run_table, run_table.c.no == rollout_group.c.run_no)
    .join(task, task.c.no == rollout_group.c.task_no)
)


def run_row(conn: Connection, run: str) -> RowMapping:
    """Return the row of a run: id, uid, kind, status, error, stop_requested, parent_id, config, … Raises NotFound."""
    row = conn.execute(RUN_ROWS.where(run_table.c.id == run)).mappings().one_or_none()
    if row is None:
        raise not_found(conn, run_table, "run", run)
    return row


def run_uid(conn: Connection, run: str) -> str:
    """Return 32 hex digits that no run of another store has, whatever its name. Raises NotFound.

    Files of a run lie in a folder named after the run, and two stores may have a run of one name: the uid separates
    their files.
    """
    return str(run_row(conn, run)["uid"].hex)


def list_runs(conn: Connection, *, limit: int = 100, after: str | None = None, **filters: Any) -> list[dict[str, Any]]:
    """Return a page of runs, newest first.

    Args:
        after: the id of the last run of the previous page.
        filters: a value, or a list of values, per key of ``RUN_FILTERS``.
    """
    return _page(conn, RUN_ROWS, run_table, RUN_FILTERS, RUN_SORTS, filters, "created_at", True, limit, after)


def list_trajectories(
    conn: Connection,
    *,
    sort: str = "created_at",
    descending: bool = True,
    limit: int = 100,
    after: str | None = None,
    **filters: Any,
) -> list[dict[str, Any]]:
    """Return a page of trajectories, without steps, messages and the JSON of the environment.

    Args:
        sort: a key of ``TRAJECTORY_SORTS``. Other than by ``created_at``, the list has the trajectories of one ``run``
            that have ended: a running one has neither a reward nor a number of turns yet.
        after: the id of the last trajectory of the previous page.
        filters: a value, or a list of values, per key of ``TRAJECTORY_FILTERS``; ``NULL`` for no value. ``success``
            is True or False for those that a rate counts as a success or a failure, ``NULL`` for those that no rate
            counts. None does not filter.

    Raises:
        StoreError: a filter or the sort is unknown, or the sort needs a run.
    """
    if sort in TRAJECTORY_SORTS and sort != "created_at" and not isinstance(filters.get("run"), str):
        raise StoreError(f"sorting by `{sort}` needs one run (`--run`): the values of different runs do not compare")
    rows = TRAJECTORY_ROWS if sort == "created_at" else TRAJECTORY_ROWS.where(trajectory.c.ended_at.is_not(None))
    return _page(conn, rows, trajectory, TRAJECTORY_FILTERS, TRAJECTORY_SORTS, filters, sort, descending, limit, after)


def list_groups(
    conn: Connection, *, limit: int = 100, after: str | None = None, descending: bool = True, **filters: Any
) -> list[dict[str, Any]]:
    """Return a page of groups by age; filters are those of ``GROUP_FILTERS``. Raises StoreError."""
    return _page(
        conn, GROUP_ROWS, rollout_group, GROUP_FILTERS, GROUP_SORTS, filters, "created_at", descending, limit, after
    )


def list_metrics(conn: Connection, run: str, kind: str = "train") -> list[dict[str, Any]]:
    """Return the metrics of the surviving updates, each with its ``update``, in order."""
    which = (
        select(metric.c.update_no, metric.c.data)
        .where(metric.c.run_no == no_of(run_table, run), metric.c.kind == kind, metric.c.abandoned == false())
        .order_by(metric.c.update_no)
    )
    return [{"update": update, **data} for update, data in conn.execute(which)]


def _page(
    conn: Connection,
    rows: Select[Any],
    table: Table,
    allowed: Mapping[str, ColumnElement[Any]],
    sorts: Mapping[str, Column[Any]],
    filters: Mapping[str, Any],
    sort: str,
    descending: bool,
    limit: int,
    after: str | None,
) -> list[dict[str, Any]]:
    """Return one page by keyset: the rows after id ``after``, in the order of (sort column, ``no``)."""
    if sort not in sorts:
        raise StoreError(f"cannot sort by {sort!r}; there are {', '.join(sorts)}")
    statement = rows
    for name, value in filters.items():
        if name not in allowed:
            raise StoreError(f"cannot filter by {name!r}; there are {', '.join(allowed)}")
        if value is not None:
            statement = statement.where(_condition(allowed[name], value))
    column = sorts[sort]
    if after is not None:
        mark = conn.execute(select(column, table.c.no).where(table.c.id == after)).one_or_none()
        if mark is None:
            raise not_found(conn, table, table.name, after)
        place = tuple_(column, table.c.no)
        statement = statement.where(place < tuple(mark) if descending else place > tuple(mark))
    order = (column.desc(), table.c.no.desc()) if descending else (column, table.c.no)
    return [dict(row) for row in conn.execute(statement.order_by(*order).limit(limit)).mappings()]


def _condition(column: ColumnElement[Any], value: Any) -> ColumnElement[bool]:
    """Return the condition that ``column`` is ``value``, or one of several."""
    if value is NULL:
        return column.is_(None)
    several = isinstance(value, list | tuple | set | frozenset)
    if column not in _NAMED:
        return column.in_(value) if several else column == value
    table = _NAMED[column]
    if several:
        return column.in_(select(table.c.no).where(table.c.id.in_(value)))
    return column == no_of(table, value)
