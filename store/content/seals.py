"""The digests of single rows, and the numbers of rows: an altered, exchanged, added or deleted row is found by them.

* ``digest`` of a row of a sealed table covers all of its columns but those that ``SEALED`` leaves out.
* A row that no digest covers as a part counts in another row: ``COUNTED`` names the column that has the number.

Every write of a sealed table goes through ``sealed`` (new rows) or ``change`` (stored rows), and every write that adds
a counted row through ``count_rows``.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Boolean, Column, ColumnElement, Connection, Integer, Table, and_, bindparam, select, update

from ..schema import lease, metric, policy_version, reward_set, rollout_group, run, store_setting, task, train_batch
from .digests import row_digest

COUNTED: Mapping[Table, Column[Any]] = {
    rollout_group: run.c.n_groups,
    policy_version: run.c.n_versions,
    train_batch: run.c.n_batches,
    lease: run.c.n_leases,
    metric: run.c.n_metrics,
    reward_set: run.c.n_reward_sets,
}
"""The column of ``run`` that has the number of the run's rows of a table."""
_COUNTS = tuple(column.name for column in COUNTED.values())
SEALED: Mapping[Table, tuple[str, ...]] = {
    table: tuple(column.name for column in table.c if column.name not in ("digest", *left_out))
    for table, left_out in {
        run: ("no", *_COUNTS),
        task: ("no",),
        rollout_group: ("no",),
        lease: (),
        policy_version: (),
        metric: (),
        reward_set: ("n_rewards",),
        store_setting: (),
    }.items()
}
"""The columns that the digest of a row covers. Rows of other tables confirm a ``no`` that it leaves out."""
UNSEALED = "00" * 32
"""The digest of a row whose ``no`` the database has yet to give; ``change`` replaces it in the same transaction."""


def seal(table: Table, row: Mapping[Any, Any]) -> str:
    """Return the digest of a row, which has every column that the digest covers."""
    return row_digest(row, SEALED[table])


def sealed(table: Table, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a new row with the values that the database would give to its other columns, and with its digest."""
    return {**row, "digest": seal(table, {**_defaults(table), **row})}


@cache
def _defaults(table: Table) -> dict[str, Any]:
    """Return the values that the database gives to the sealed columns of a row that names none."""
    return {name: _default(table.c[name]) for name in SEALED[table]}


def _default(column: Column[Any]) -> Any:
    if column.server_default is None:
        return None
    if isinstance(column.type, Boolean):
        return False
    text = str(column.server_default.arg)  # type: ignore[attr-defined]
    return int(text) if isinstance(column.type, Integer) else text


def change(conn: Connection, table: Table, where: ColumnElement[bool], **values: Any) -> int:
    """Set columns of the stored rows that fulfil a condition, with their digests, and return how many rows those are.

    The rows are locked until the transaction ends.
    """
    rows = conn.execute(select(table).where(where).with_for_update(key_share=True)).mappings().all()
    write_changes(conn, table, [(row, values) for row in rows])
    return len(rows)


def write_changes(
    conn: Connection, table: Table, changes: Sequence[tuple[Mapping[Any, Any], Mapping[str, Any]]]
) -> None:
    """Set columns of rows, with their digests.

    Args:
        changes: the stored and locked rows, each with its new values; those of all rows have the same columns.
    """
    if not changes:
        return
    keys = list(table.primary_key.columns)
    parameters = [
        {
            **{f"key_{column.name}": row[column.name] for column in keys},
            **values,
            "digest": seal(table, {**row, **values}),
        }
        for row, values in changes
    ]
    which = and_(*(column == bindparam(f"key_{column.name}") for column in keys))
    names = (*changes[0][1], "digest")
    conn.execute(update(table).where(which).values({name: bindparam(name) for name in names}), parameters)


def count_rows(conn: Connection, table: Table, run_no: int, added: int = 1) -> None:
    """Add to the number of rows of ``table`` that a run has."""
    column = COUNTED[table]
    conn.execute(update(run).where(run.c.no == run_no).values({column: column + added}))
