"""The surviving updates of a run that a reader wants: all, those of a span, or so many that a curve has its shape."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy import Column, ColumnElement, Connection, func, or_, select, true

from ..schema import batch_item, train_batch
from .conditions import surviving

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Updates:
    """A selection of updates by number: from ``first`` to ``last``, those that ``every`` divides and the last one."""

    first: int = 0
    last: int | None = None
    """None for the newest one."""
    every: int = 1

    def contain(self, number: Column[int]) -> ColumnElement[bool]:
        """Return the condition that a column has the number of a selected update."""
        chosen = number >= self.first
        if self.last is not None:
            chosen &= number <= self.last
        return chosen & (or_(number % self.every == 0, number == self.last) if self.every > 1 else true())


ALL = Updates()


def newest_update(conn: Connection, run: str) -> int | None:
    """Return the number of the newest surviving update of a run; None without one."""
    which = select(func.max(train_batch.c.update_no)).where(surviving(train_batch, run))
    newest: int | None = conn.execute(which).scalar_one()
    return newest


def idle_updates(conn: Connection, run: str) -> int:
    """Return how many surviving updates of a run trained on no token: their gradient was 0."""
    same = (batch_item.c.run_no == train_batch.c.run_no) & (batch_item.c.version_id == train_batch.c.version_id)
    trained = select(batch_item.c.idx).where(same, batch_item.c.tokens_trained > 0).exists()
    which = select(func.count()).select_from(train_batch).where(surviving(train_batch, run), ~trained)
    return int(conn.execute(which).scalar_one())


def thinned(conn: Connection, run: str, most: int, within: Updates = ALL) -> Updates:
    """Return about ``most`` of the updates ``within`` a selection, evenly, with its last one.

    A number stays selected while a run grows, until the selection is thinned by a larger divisor.
    """
    newest, first = newest_update(conn, run), within.first
    last = newest if within.last is None or newest is None else min(within.last, newest)
    if last is None:
        return within
    return Updates(first, last, max(1, -((first - last) // most)))


def evenly(items: Sequence[T], most: int | None) -> Sequence[T]:
    """Return about ``most`` of ``items``, at equal distances, with the last one; None returns all."""
    return items if most is None else items[:: -max(1, -(-len(items) // most))][::-1]
