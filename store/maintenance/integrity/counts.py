"""Counts that a head stores of its rows: they must be those of the rows."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Column, Connection, Table, func, inspect, select

from ...content.blob_root import BLOB_ROOT, RUNS, SEARCH_INDEX, STORE_ID, setting
from ...content.blobs import IN_FOLDER
from ...content.seals import COUNTED
from ...schema import blob, reward, reward_set, rollout_group, run, store_setting, trajectory
from .finding import Finding, Progress, findings, key_columns

_INDEXED = f"SELECT count(*) FROM {SEARCH_INDEX}"  # noqa: S608


def check_counts(conn: Connection, progress: Progress) -> Iterator[Finding]:
    """Yield a finding per number of rows that a group, a run, a reward set or the store has in a column."""
    progress("counts", 0, 0)
    yield from _of_groups(conn)
    for table, column in COUNTED.items():
        yield from _of_rows(conn, table, table.c.run_no, column)
    yield from _of_rows(conn, reward, reward.c.set_no, reward_set.c.n_rewards)
    yield from _of_settings(conn)


def _of_rows(conn: Connection, table: Table, owner: Column[Any], stored: Column[Any]) -> Iterator[Finding]:
    """Yield a finding per row that has another number of rows of ``table`` than ``stored``, one of its columns."""
    rows = select(func.count()).where(owner == stored.table.c.no).scalar_subquery()
    statement = select(*key_columns(stored.table), stored, rows.label("rows")).where(stored != rows)
    problem = f"is {{{stored.name}}}, but the rows of `{table.name}` are {{rows}}: one was added or deleted"
    yield from findings(conn, stored.table, statement, stored.name, problem)


def _of_settings(conn: Connection) -> Iterator[Finding]:
    """Yield a finding per setting that the rows of the store need and lack, and if the number of runs differs."""
    needed = [STORE_ID, RUNS]
    if conn.execute(select(blob.c.hash).where(blob.c.location == IN_FOLDER).limit(1)).first() is not None:
        needed.append(BLOB_ROOT)
    if inspect(conn).has_table(SEARCH_INDEX) and conn.exec_driver_sql(_INDEXED).scalar_one():
        needed.append(SEARCH_INDEX)
    for name in needed:
        if setting(conn, name) is None:
            yield Finding(store_setting.name, f"name={name}", "name", "is missing")
    rows = conn.execute(select(func.count()).select_from(run)).scalar_one()
    if (stored := setting(conn, RUNS)) not in (None, str(rows)):
        problem = f"is {stored}, but the store has {rows} runs: one was added or deleted"
        yield Finding(store_setting.name, f"name={RUNS}", "value", problem)


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
