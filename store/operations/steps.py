"""The hot path: turns, written as they happen.

A policy of a few thousand parameters plays over a thousand turns per second, each one row. The process
that plays builds the rows (``content.rows``), and the rows of many trajectories are inserted together, in
one call per table. An existing row stays as it is, so a repeated append adds nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from sqlalchemy import bindparam, select

from ...records import Status
from ..content.blobs import NewBlob
from ..content.rows import MESSAGE_IMAGE, PARTIAL_TURN, STEP, STEP_IMAGE, Rows
from ..errors import Fenced, NotFound, StoreConflict
from ..schema import message_image, partial_turn, step_image
from ..schema import step as step_table
from .bulk_insert import BulkInsert
from .transaction import Transaction, operation

_CHUNK = 500
_HEADS = "SELECT id, no, status, writer FROM trajectory WHERE id IN ({}) ORDER BY no"
_STEPS = select(step_table.c.idx).where(step_table.c.trajectory_no == bindparam("key"))
_PARTIAL = select(partial_turn.c.idx).where(partial_turn.c.trajectory_no == bindparam("key"))
_IDX_OF_STEP, _IDX_OF_PARTIAL = STEP.index("idx"), PARTIAL_TURN.index("idx")
_INSERTS = tuple(
    (BulkInsert(table, ("trajectory_no", *columns)), rows)
    for table, columns, rows in (
        (step_table, STEP, attrgetter("rows.steps")),
        (partial_turn, PARTIAL_TURN, attrgetter("rows.partial_turns")),
        (message_image, MESSAGE_IMAGE, attrgetter("rows.message_images")),
        (step_image, STEP_IMAGE, attrgetter("rows.step_images")),
    )
)


@dataclass(slots=True)
class Append:
    """The arguments of one ``append``."""

    trajectory: str
    rows: Rows
    writer: str = ""


@operation
def append(tx: Transaction, *, trajectory: str, rows: Rows, writer: str = "") -> None:
    """Add the rows of steps and messages to a running trajectory.

    Raises:
        NotFound: the trajectory is not in the store.
        Fenced: another writer began the trajectory.
        StoreConflict: it has ended, and the store lacks one of these turns.
    """
    append_many(tx, [Append(trajectory, rows, writer)])


def append_many(tx: Transaction, appends: Sequence[Append]) -> None:
    """Run several appends in their order, all or none. Raises as ``append`` does."""
    nos = _check_running(tx, appends)
    blobs: dict[str, NewBlob] = {}
    for one in appends:
        blobs |= one.rows.blobs
    if blobs:
        tx.blobs.insert(tx.conn, blobs, tx.now)
    for insert, rows_of in _INSERTS:
        if rows := [(nos[one.trajectory], *row) for one in appends for row in rows_of(one)]:
            insert.run(tx.conn, rows)


def _check_running(tx: Transaction, appends: Sequence[Append]) -> dict[str, int]:
    """Return ``no`` of each trajectory. No other transaction ends one of them before this one does."""
    names = list({one.trajectory for one in appends})
    is_sqlite = tx.conn.dialect.name == "sqlite"
    heads: dict[str, tuple[int, str, str]] = {}
    for start in range(0, len(names), _CHUNK):
        chunk = tuple(names[start : start + _CHUNK])
        statement = _HEADS.format(", ".join(["?" if is_sqlite else "%s"] * len(chunk)))
        rows = tx.conn.exec_driver_sql(statement if is_sqlite else f"{statement} FOR SHARE", chunk)
        heads.update((name, (no, status, writer)) for name, no, status, writer in rows)
    for one in appends:
        if one.trajectory not in heads:
            raise NotFound(f"no trajectory {one.trajectory} in the store; call `start_trajectory` first")
        no, status, writer = heads[one.trajectory]
        if writer != one.writer:
            raise Fenced(f"another process writes trajectory {one.trajectory}; this step was not stored")
        if status != Status.RUNNING.value and not _is_stored(tx, no, one.rows):
            raise StoreConflict(f"trajectory {one.trajectory} ended as {status}, so no step can be appended")
    return {name: no for name, (no, _, _) in heads.items()}


def _is_stored(tx: Transaction, no: int, rows: Rows) -> bool:
    steps = set(tx.conn.execute(_STEPS, {"key": no}).scalars())
    partial = set(tx.conn.execute(_PARTIAL, {"key": no}).scalars())
    return steps.issuperset(row[_IDX_OF_STEP] for row in rows.steps) and partial.issuperset(
        row[_IDX_OF_PARTIAL] for row in rows.partial_turns
    )
