"""References to rows that do not exist, and stored counts of rows that differ from the rows.

The tables that grow with every turn have no foreign keys.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import Column, ColumnElement, Connection, Select, Table, and_, exists, false, func, inspect, select

from ...content.blob_root import BLOB_ROOT, SEARCH_INDEX, STORE_ID, setting
from ...content.blobs import IN_FOLDER
from ...schema import (
    OWN,
    blob,
    metadata,
    partial_turn,
    reward,
    reward_set,
    rollout_group,
    run,
    step,
    step_image,
    store_setting,
    trajectory,
)
from .. import Progress
from ..garbage import REFERENCES
from .finding import Finding, findings, key_columns


class Reference(NamedTuple):
    """Columns of ``table`` that name a row of another table, or of the same one."""

    table: Table
    columns: tuple[Column[Any], ...]
    targets: tuple[Column[Any], ...]
    unless: ColumnElement[bool] = false()
    """A condition of the rows that need not name a row."""

    @property
    def field(self) -> str:
        """The column that differs from row to row: the last one."""
        return self.columns[-1].name


_IS_FINAL_IMAGE = exists(
    select(1).where(trajectory.c.no == step_image.c.trajectory_no, trajectory.c.n_steps == step_image.c.step_idx)
)
"""An image of the final observation has the index after the last step."""


@cache
def references() -> tuple[Reference, ...]:
    """Return every reference: the foreign keys of the schema, and those that it leaves to this check."""
    declared = [
        Reference(table, tuple(constraint.columns), tuple(element.column for element in constraint.elements))
        for table in metadata.sorted_tables
        for constraint in table.foreign_key_constraints
    ]
    undeclared = [Reference(table, (table.c.trajectory_no,), (trajectory.c.no,)) for table in (step, partial_turn)]
    undeclared += [
        Reference(table, (table.c.run_no,), (run.c.no,))
        for table in metadata.sorted_tables
        if "run_no" in table.c and not table.c.run_no.foreign_keys
    ]
    undeclared.append(_inside(step_image, "step_idx", step)._replace(unless=_IS_FINAL_IMAGE))
    undeclared.append(Reference(reward, (reward.c.set_no,), (reward_set.c.no,), unless=reward.c.set_no == OWN))
    undeclared += [Reference(c.table, (c,), (blob.c.hash,)) for c in REFERENCES if not c.foreign_keys]
    return (*declared, *undeclared)


def _inside(table: Table, column: str, target: Table) -> Reference:
    """Return a reference within one trajectory."""
    return Reference(table, (table.c.trajectory_no, table.c[column]), (target.c.trajectory_no, target.c.idx))


def check_references(conn: Connection, progress: Progress) -> Iterator[Finding]:
    """Yield a finding per reference to a missing row."""
    listed = references()
    for done, reference in enumerate(listed):
        progress("references", done, len(listed))
        target = reference.targets[0].table.name
        problem = f"names {target} {{value_{reference.field}}}, which is not stored"
        yield from findings(conn, reference.table, _dangling(reference), reference.field, problem)


@cache
def _dangling(reference: Reference) -> Select[Any]:
    """Return the statement of the rows whose reference names no row."""
    table, columns = reference.table, reference.columns
    target = reference.targets[0].table.alias("target")
    matches = and_(*(target.c[to.name] == of for of, to in zip(columns, reference.targets, strict=True)))
    return select(*key_columns(table), *(column.label(f"value_{column.name}") for column in columns)).where(
        *(column.is_not(None) for column in columns),
        ~reference.unless,
        ~exists(select(1).select_from(target).where(matches)),
    )


_INDEXED = f"SELECT count(*) FROM {SEARCH_INDEX}"  # noqa: S608


def check_counts(conn: Connection, progress: Progress) -> Iterator[Finding]:
    """Yield a finding per number of rows that a group or a reward set has in a column, and per missing setting."""
    progress("counts", 0, 0)
    yield from _of_groups(conn)
    yield from _of_reward_sets(conn)
    yield from _of_settings(conn)


def _of_reward_sets(conn: Connection) -> Iterator[Finding]:
    stored = reward_set.c.n_rewards
    rows = select(func.count()).where(reward.c.set_no == reward_set.c.no).scalar_subquery()
    statement = select(*key_columns(reward_set), stored, rows.label("rows")).where(stored != rows)
    problem = "is {n_rewards}, but the rows of `reward` are {rows}: one was added or deleted"
    yield from findings(conn, reward_set, statement, "n_rewards", problem)


def _of_settings(conn: Connection) -> Iterator[Finding]:
    """Yield a finding per setting that the rows of the store need and lack."""
    needed = [STORE_ID]
    if conn.execute(select(blob.c.hash).where(blob.c.location == IN_FOLDER).limit(1)).first() is not None:
        needed.append(BLOB_ROOT)
    if inspect(conn).has_table(SEARCH_INDEX) and conn.exec_driver_sql(_INDEXED).scalar_one():
        needed.append(SEARCH_INDEX)
    for name in needed:
        if setting(conn, name) is None:
            yield Finding(store_setting.name, f"name={name}", "name", "is missing")


def _of_groups(conn: Connection) -> Iterator[Finding]:
    members: Any = select(func.count()).where(trajectory.c.group_no == rollout_group.c.no).scalar_subquery()
    statement = select(*key_columns(rollout_group), rollout_group.c.n_trajectories, members.label("members")).where(
        rollout_group.c.n_trajectories != members
    )
    yield from findings(
        conn,
        rollout_group,
        statement,
        "n_trajectories",
        "is {n_trajectories}, but the group has {members} trajectories",
    )
