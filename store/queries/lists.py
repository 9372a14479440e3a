"""Lists of records: runs, trajectories, groups and metrics, filtered, sorted and by page.

Filters and sort columns come from an allow-list, and every value is bound: no text becomes SQL. A record names others
by their ids (``run_id``, ``group_id``), and holds no content. To show another column, add a field to its record.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from itertools import islice
from random import Random
from typing import Any, Generic, TypeVar
from uuid import UUID

from sqlalchemy import Column, ColumnElement, Connection, Select, Table, select, true, tuple_

from ...records import SCORED_STATUSES
from ..errors import NotFound, StoreError
from ..schema import RESULT, metric, no_of, rollout_group, task, trajectory
from ..schema import run as run_table
from .conditions import of_run, row_count, surviving
from .nearest import not_found
from .updates import ALL, Updates

NULL = object()
"""The value of a filter for rows that have no value in that column."""

R = TypeVar("R")
_parent = trajectory.alias("parent")
_parent_run = run_table.alias("parent_run")


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run."""

    id: str
    uid: UUID
    """Unique among all stores. Two stores may have a run of one name: the uid separates their files."""
    kind: str
    status: str
    epoch: int
    """Number of its drivers."""
    error: str
    stop_requested: bool
    parent_id: str | None
    """The run that it is a fork of, from its version ``parent_version``."""
    parent_version: int | None
    code_version: str
    git_revision: str
    packages: Mapping[str, str]
    config_hash: str
    config: dict[str, Any]
    changes: list[dict[str, Any]]
    """Per resume with another configuration: ``after_update``, and ``keys`` with their old and new values."""
    created_at: datetime
    ended_at: datetime | None

    @property
    def environments(self) -> list[str]:
        """The ids of the environments in its configuration, each once."""
        return list(dict.fromkeys(str(one["id"]) for one in self.config.get("environments", ())))


@dataclass(frozen=True, slots=True)
class TrajectoryRow:
    """A trajectory, without its turns, its final observation and the JSON of its environment."""

    id: str
    uid: UUID
    run_id: str
    group_id: str
    member: int
    attempt: int
    status: str
    ended_by: str
    """One of ``records.EndedBy``; empty while it runs."""
    env_id: str
    purpose: str
    source: str
    policy: str
    reward: float
    success: bool | None
    error: str
    stop_reason: str
    reached: str
    """One of ``records.Limit``; empty if no limit of the horizon truncated it."""
    n_steps: int
    n_tokens: int
    min_version: int | None
    max_version: int | None
    branched_from: str | None
    branched_at: int | None
    deterministic: bool
    abandoned: bool
    created_at: datetime
    ended_at: datetime | None
    pruned_at: datetime | None


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group, without its trajectories."""

    id: str
    run_id: str
    task_id: str
    purpose: str
    size: int
    prompt_prefix: str
    max_turns: int
    max_tokens_per_turn: int
    max_tokens_per_episode: int
    max_context: int
    state: str
    reason: str
    abandoned: bool
    created_at: datetime
    closed_at: datetime | None
    n_trajectories: int | None
    score_no: int | None
    n_rewards: int | None
    draw: int | None


@dataclass(frozen=True, slots=True)
class Listing(Generic[R]):
    """The rows of a table as records of one type, with the columns by which a page may be filtered and sorted."""

    record: type[R]
    table: Table
    rows: Select[Any]
    filters: Mapping[str, ColumnElement[Any]]
    sorts: Sequence[str] = ("created_at",)

    def select(self, conn: Connection, statement: Select[Any]) -> list[R]:
        """Return the records of a statement that ``rows`` was made into."""
        return [self.record(*row) for row in conn.execute(statement)]

    def page(
        self,
        conn: Connection,
        filters: Mapping[str, Any],
        *,
        limit: int,
        after: str | None,
        sort: str = "created_at",
        descending: bool = True,
        where: Sequence[ColumnElement[bool]] = (),
    ) -> list[R]:
        """Return one page by keyset: the rows after id ``after``, in the order of (sort column, ``no``).

        Raises:
            StoreError: a filter or the sort is unknown.
            NotFound: the table has no row ``after``.
        """
        if sort not in self.sorts:
            raise StoreError(f"cannot sort by {sort!r}; there are {', '.join(self.sorts)}")
        statement = self.rows.where(*where)
        for name, value in filters.items():
            if name not in self.filters:
                raise StoreError(f"cannot filter by {name!r}; there are {', '.join(self.filters)}")
            if value is not None:
                statement = statement.where(_condition(self.filters[name], value))
        column, no = self.table.c[sort], self.table.c.no
        if after is not None:
            mark = conn.execute(select(column, no).where(self.table.c.id == after)).one_or_none()
            if mark is None:
                raise not_found(conn, self.table, self.table.name, after)
            place = tuple_(column, no)
            statement = statement.where(place < tuple(mark) if descending else place > tuple(mark))
        order = (column.desc(), no.desc()) if descending else (column, no)
        return self.select(conn, statement.order_by(*order).limit(limit))


def columns_of(record: type[Any], table: Table, **others: Column[Any]) -> list[ColumnElement[Any]]:
    """Return the column of each field of a record: ``others``, or else the column of that name in ``table``."""
    return [
        others[field.name].label(field.name) if field.name in others else table.c[field.name].label(field.name)
        for field in fields(record)
    ]


RUNS = Listing(
    RunRow,
    run_table,
    select(*columns_of(RunRow, run_table, parent_id=_parent_run.c.id)).join(
        _parent_run, _parent_run.c.no == run_table.c.parent_no, isouter=True
    ),
    {"status": run_table.c.status, "kind": run_table.c.kind},
)
TRAJECTORIES = Listing(
    TrajectoryRow,
    trajectory,
    select(
        *columns_of(
            TrajectoryRow, trajectory, run_id=run_table.c.id, group_id=rollout_group.c.id, branched_from=_parent.c.id
        )
    )
    .join(run_table, run_table.c.no == trajectory.c.run_no)
    .join(rollout_group, rollout_group.c.no == trajectory.c.group_no)
    .join(_parent, _parent.c.no == trajectory.c.branched_from, isouter=True),
    {
        "run": trajectory.c.run_no,
        "group": trajectory.c.group_no,
        "task": rollout_group.c.task_no,
        "status": trajectory.c.status,
        "env": trajectory.c.env_id,
        "purpose": trajectory.c.purpose,
        "policy": trajectory.c.policy,
        "source": trajectory.c.source,
        "success": RESULT,
        "abandoned": trajectory.c.abandoned,
        "deterministic": trajectory.c.deterministic,
    },
    ("created_at", "reward", "n_steps"),
)
GROUPS = Listing(
    GroupRow,
    rollout_group,
    select(*columns_of(GroupRow, rollout_group, run_id=run_table.c.id, task_id=task.c.id))
    .join(run_table, run_table.c.no == rollout_group.c.run_no)
    .join(task, task.c.no == rollout_group.c.task_no),
    {
        "run": rollout_group.c.run_no,
        "state": rollout_group.c.state,
        "purpose": rollout_group.c.purpose,
        "task": rollout_group.c.task_no,
        "reason": rollout_group.c.reason,
        "abandoned": rollout_group.c.abandoned,
    },
)
_NAMED: dict[ColumnElement[Any], Table] = {
    trajectory.c.run_no: run_table,
    trajectory.c.group_no: rollout_group,
    rollout_group.c.run_no: run_table,
    rollout_group.c.task_no: task,
}
"""Filters by a reference: the value is the id of a row of this table."""


def find_run(conn: Connection, run: str) -> RunRow:
    """Return a run. Raises NotFound; the message names the nearest run."""
    found = RUNS.select(conn, RUNS.rows.where(run_table.c.id == run))
    if not found:
        raise not_found(conn, run_table, "run", run)
    return found[0]


def kind_of(conn: Connection, name: str) -> str | None:
    """Return what has this id, ``run``, ``group`` or ``trajectory``, the first of these; None if nothing has."""
    kinds = {"run": run_table, "group": rollout_group, "trajectory": trajectory}
    found = (kind for kind, table in kinds.items() if row_count(conn, table.c.id == name))
    return next(found, None)


def list_runs(
    conn: Connection, *, limit: int = 100, after: str | None = None, name: str | None = None, **filters: Any
) -> list[RunRow]:
    """Return a page of runs, newest first.

    Args:
        after: the id of the last run of the previous page.
        name: only runs whose id contains this text.
        filters: a value, or a list of values, per key of ``RUNS.filters``.
    """
    where = () if name is None else (run_table.c.id.contains(name, autoescape=True),)
    return RUNS.page(conn, filters, limit=limit, after=after, where=where)


def list_trajectories(
    conn: Connection,
    *,
    sort: str = "created_at",
    descending: bool = True,
    limit: int = 100,
    after: str | None = None,
    versions: tuple[int, int] | None = None,
    **filters: Any,
) -> list[TrajectoryRow]:
    """Return a page of trajectories.

    Args:
        sort: one of ``TRAJECTORIES.sorts``. Other than by ``created_at``, the list has the trajectories of one ``run``
            that have ended: a running one has neither a reward nor a number of turns yet.
        versions: only trajectories whose newest version is one of these, the last one included.
        after: the id of the last trajectory of the previous page.
        filters: a value, or a list of values, per key of ``TRAJECTORIES.filters``; ``NULL`` for no value. ``success``
            is True or False for those that a rate counts as a success or a failure, ``NULL`` for those that no rate
            counts. None does not filter.

    Raises:
        StoreError: a filter or the sort is unknown, or the sort needs a run.
    """
    if sort in TRAJECTORIES.sorts and sort != "created_at" and not isinstance(filters.get("run"), str):
        raise StoreError(f"sorting by `{sort}` needs one run (`--run`): the values of different runs do not compare")
    where = [] if sort == "created_at" else [trajectory.c.ended_at.is_not(None)]
    if versions is not None:
        where.append(trajectory.c.max_version.between(*versions))
    return TRAJECTORIES.page(conn, filters, limit=limit, after=after, sort=sort, descending=descending, where=where)


def list_groups(
    conn: Connection,
    *,
    limit: int = 100,
    after: str | None = None,
    descending: bool = True,
    closed: tuple[datetime | None, datetime] | None = None,
    **filters: Any,
) -> list[GroupRow]:
    """Return a page of groups by age.

    Args:
        closed: only groups that closed after the first moment, if there is one, and not after the second.
        filters: those of ``GROUPS.filters``.

    Raises:
        StoreError: a filter is unknown.
    """
    where = () if closed is None else closed_between(*closed)
    return GROUPS.page(conn, filters, limit=limit, after=after, descending=descending, where=where)


def closed_between(after: datetime | None, until: datetime) -> list[ColumnElement[bool]]:
    """Return the conditions that a group closed after a moment, if there is one, and not after another one."""
    closed = rollout_group.c.closed_at
    return [closed <= until, *([] if after is None else [closed > after])]


def find_group(conn: Connection, group: str) -> GroupRow:
    """Return the row of a group. Raises NotFound."""
    found = GROUPS.select(conn, GROUPS.rows.where(rollout_group.c.id == group))
    if not found:
        raise NotFound(f"no group {group} in the store")
    return found[0]


def group_row_of(conn: Connection, trajectory_id: str) -> GroupRow:
    """Return the row of a trajectory's group. Raises NotFound."""
    of = select(trajectory.c.group_no).where(trajectory.c.id == trajectory_id).scalar_subquery()
    found = GROUPS.select(conn, GROUPS.rows.where(rollout_group.c.no == of))
    if not found:
        raise not_found(conn, trajectory, "trajectory", trajectory_id)
    return found[0]


def list_metrics(conn: Connection, run: str, kind: str = "train", updates: Updates = ALL) -> list[dict[str, Any]]:
    """Return the metrics of the surviving updates of ``updates``, each with its ``update``, in order."""
    which = (
        select(metric.c.update_no, metric.c.data)
        .where(surviving(metric, run), metric.c.kind == kind, updates.contain(metric.c.update_no))
        .order_by(metric.c.update_no)
    )
    return [{"update": update, **data} for update, data in conn.execute(which)]


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


def replayable(conn: Connection, run: str) -> list[str]:
    """Return the ids of the run's scored trajectories with at least one step in deterministic environments, by age.

    Those whose content retention removed are left out.
    """
    return list(conn.execute(_ids(run)).scalars())


def draw_replayable(conn: Connection, run: str, count: int, stream: Random) -> list[str]:
    """Return ``count`` random ids of those, or all if there are fewer, by age. Other rows are counted, not loaded."""
    total = row_count(conn, *_conditions(run))
    if total <= count:
        return replayable(conn, run)
    drawn = sorted(stream.sample(range(total), count))
    found, last = [], -1
    with conn.execute(_ids(run).execution_options(yield_per=1000)) as rows:
        ids = rows.scalars()
        for place in drawn:
            found.append(next(islice(ids, place - last - 1, None)))
            last = place
    return found


def _ids(run: str) -> Select[str]:
    return select(trajectory.c.id).where(*_conditions(run)).order_by(trajectory.c.created_at, trajectory.c.no)


def _conditions(run: str) -> list[ColumnElement[bool]]:
    return [
        of_run(trajectory, run),
        trajectory.c.status.in_([status.value for status in SCORED_STATUSES]),
        trajectory.c.deterministic == true(),
        trajectory.c.n_steps > 0,
        trajectory.c.pruned_at.is_(None),
    ]
