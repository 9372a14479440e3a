"""The hot path: turns, written as they happen.

A policy of a few thousand parameters plays over a thousand turns per second, each one row. The process
that plays builds the rows (``content.rows``), and the rows of many trajectories are inserted together, in
one call per table. An existing row stays as it is, so a repeated append adds nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import bindparam, select

from ...records import Status
from ..content.blobs import NewBlob
from ..content.rows import MESSAGE_IMAGE, PARTIAL_TURN, STEP, STEP_BLOBS, STEP_IMAGE, Rows
from ..errors import Fenced, NotFound, StoreConflict
from ..schema import Lookup, message_image, partial_turn, step_image
from ..schema import step as step_table
from ..schema import trajectory as trajectory_table
from .bulk_insert import BulkInsert
from .transaction import Transaction, bulk_operation

_HEADS = Lookup(
    select(*(trajectory_table.c[name] for name in ("id", "no", "status", "writer")))
    .order_by(trajectory_table.c.no)
    .with_for_update(read=True),
    trajectory_table.c.id,
)
_STEPS = select(step_table.c.idx).where(step_table.c.trajectory_no == bindparam("key"))
_PARTIAL = select(partial_turn.c.idx).where(partial_turn.c.trajectory_no == bindparam("key"))
_SHORT = len(STEP)
_IDX_OF_STEP, _IDX_OF_PARTIAL = STEP.index("idx"), PARTIAL_TURN.index("idx")
_RUNNING = Status.RUNNING.value
_INSERTS = tuple(
    BulkInsert(table, ("trajectory_no", *columns))
    for table, columns in (
        (step_table, STEP),
        (step_table, (*STEP, *STEP_BLOBS)),
        (partial_turn, PARTIAL_TURN),
        (message_image, MESSAGE_IMAGE),
        (step_image, STEP_IMAGE),
    )
)


@dataclass(frozen=True, slots=True)
class Append:
    """Rows of steps and messages for a running trajectory, by the ``writer`` that began it."""

    trajectory: str
    rows: Rows
    writer: str = ""

    @property
    def blobs(self) -> Mapping[str, NewBlob]:
        """The content that the rows name, by hash."""
        return self.rows.blobs

    def with_blobs(self, blobs: dict[str, NewBlob]) -> "Append":
        """Return the record with other blobs."""
        return replace(self, rows=replace(self.rows, blobs=blobs))


@bulk_operation(Append)
def append(tx: Transaction, appends: Sequence[Append]) -> None:
    """Add rows of steps and messages to running trajectories.

    Raises:
        Fenced: another writer began the trajectory.
        StoreConflict: it has ended, and the store lacks one of these turns.
    """
    heads: dict[str, Sequence[Any]] = {row[0]: row for row in _HEADS.run(tx.conn, {one.trajectory for one in appends})}
    added: dict[BulkInsert, list[tuple[Any, ...]]] = {insert: [] for insert in _INSERTS}
    steps, long_steps, partial, message_images, shown = added.values()
    for one in appends:
        rows = one.rows
        if (head := heads.get(one.trajectory)) is None:
            raise NotFound(f"no trajectory {one.trajectory} in the store; call `start_trajectory` first")
        if head[2] != _RUNNING or head[3] != one.writer:
            _check_running(tx, head, one)
        no = (head[1],)
        for row in rows.steps:
            (steps if len(row) == _SHORT else long_steps).append(no + row)
        if rows.partial_turns or rows.message_images or rows.step_images:
            partial += [no + row for row in rows.partial_turns]
            message_images += [no + row for row in rows.message_images]
            shown += [no + row for row in rows.step_images]
    for insert, values in added.items():
        if values:
            insert.run(tx.conn, values)


def _check_running(tx: Transaction, head: Sequence[Any], one: Append) -> None:
    """Check that the trajectory runs, by its row of ``_HEADS``. No other transaction ends it before this one does."""
    name, no, status, writer = head
    if writer != one.writer:
        raise Fenced(f"another process writes trajectory {name}; this step was not stored")
    if status != _RUNNING and not _is_stored(tx, no, one.rows):
        raise StoreConflict(f"trajectory {name} ended as {status}, so no step can be appended")


def _is_stored(tx: Transaction, no: int, rows: Rows) -> bool:
    steps = set(tx.conn.execute(_STEPS, {"key": no}).scalars())
    partial = set(tx.conn.execute(_PARTIAL, {"key": no}).scalars())
    return steps.issuperset(row[_IDX_OF_STEP] for row in rows.steps) and partial.issuperset(
        row[_IDX_OF_PARTIAL] for row in rows.partial_turns
    )
