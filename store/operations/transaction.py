"""A write transaction, and the operations that run in one.

An operation is a function ``f(tx, *, ...)`` under ``@operation``, or a function ``f(tx, records)`` under
``@bulk_operation``. It may run twice with the same arguments, because a caller repeats a call whose answer was lost:
the second run must change nothing. The caller therefore makes the ids.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache, update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from sqlalchemy import Connection, Table, func, select

from ..content.blobs import BlobStore, NewBlob
from ..errors import NotFound
from ..schema import Lookup
from ..schema.types import UtcDateTime, utc_now

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")

WRITE_TIMEOUT_S = 120.0
"""Seconds from the submission of a write to its deadline, unless its caller sets another one."""
_DATABASE_CLOCK = select(func.clock_timestamp(type_=UtcDateTime()))


@dataclass(slots=True)
class Transaction:
    """One connection in one write transaction, and the blobs that its rows refer to."""

    conn: Connection
    blobs: BlobStore
    _now: datetime | None = field(default=None, init=False)

    @property
    def now(self) -> datetime:
        """Return the time of this transaction by the database's clock, read at the first use.

        The hosts that share a PostgreSQL store need not have equal clocks. One host writes to an SQLite file, so its
        clock is the database's.
        """
        if self._now is None:
            is_sqlite = self.conn.dialect.name == "sqlite"
            self._now = utc_now() if is_sqlite else self.conn.execute(_DATABASE_CLOCK).scalar_one()
        return self._now


@cache
def _numbers(table: Table) -> Lookup:
    return Lookup(select(table.c.id, table.c.no), table.c.id)


def numbers_of(conn: Connection, table: Table, names: Iterable[str]) -> dict[str, int]:
    """Return ``no`` of the rows of ``table`` by their ids ``names``. Raises NotFound."""
    wanted = sorted(set(names))
    found: dict[str, int] = dict(map(tuple, _numbers(table).run(conn, wanted)))
    if missing := [name for name in wanted if name not in found]:
        raise NotFound(f"no {table.name.removeprefix('rollout_')} {missing[0]} in the store")
    return found


@dataclass(frozen=True, slots=True)
class Write(Generic[T]):
    """One call of an operation, to be run in a transaction elsewhere; ``T`` is the type of its result. Picklable."""

    operation: str
    record: Any
    """The record of a ``BulkOperation``; the keyword arguments of an ``Operation``, as a mapping."""
    left_s: float = WRITE_TIMEOUT_S
    """Seconds that are left until its deadline: a duration, because hosts do not share a clock."""
    blobs: Mapping[str, NewBlob] = field(default_factory=dict, compare=False)
    """The content that the rows of the write name, by hash."""

    @property
    def trajectory(self) -> str:
        """The id of the trajectory that the write belongs to; empty for none."""
        named = getattr(self.record, "trajectory", "")
        return named if isinstance(named, str) else str(named.id)

    def within(self, left_s: float) -> "Write[T]":
        """Return the write with ``left_s`` seconds until its deadline."""
        return Write(self.operation, self.record, left_s, self.blobs)

    def staged(self, store: BlobStore) -> "Write[T]":
        """Return the write with its large content in the folder of ``store``, synced: before a transaction begins.

        Raises:
            StoreFull: the disk is full.
            StoreError: the folder belongs to another store.
        """
        if not self.blobs:
            return self
        blobs = {name: store.stage(new) for name, new in self.blobs.items()}
        return replace(self, record=self.record.with_blobs(blobs), blobs=blobs)


class Operation(Generic[P, T]):
    """A write of the store. Call it inside a transaction, or ``bind`` arguments and hand the ``Write`` to a queue."""

    def __init__(self, function: Callable[Concatenate[Transaction, P], T]) -> None:
        self._function = function
        self.name = function.__name__
        update_wrapper(self, function)

    def __call__(self, tx: Transaction, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._function(tx, *args, **kwargs)

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Write[T]:
        """Return this call as a value. Every argument is passed by keyword."""
        return Write(self.name, kwargs)


class BulkOperation(Operation[P, None], Generic[P, R]):
    """A write of episodes: its function takes a list of frozen records, so that many writes are few statements.

    A call has the arguments of one record, which is also the form in which the write travels.
    """

    def __init__(self, record: Callable[P, R], function: Callable[[Transaction, Sequence[R]], None]) -> None:
        self._record = record
        self._run = function
        self.name = function.__name__
        update_wrapper(self, function)

    def __call__(self, tx: Transaction, /, *args: P.args, **kwargs: P.kwargs) -> None:
        write = self.bind(*args, **kwargs)
        insert_content(tx, [write])
        self.run(tx, [write.record])

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Write[None]:
        """Return this call as a value."""
        return self.write(self._record(*args, **kwargs))

    def write(self, record: R) -> Write[None]:
        """Return the call with one record as a value."""
        return Write(self.name, record, blobs=getattr(record, "blobs", {}))

    def run(self, tx: Transaction, records: Sequence[R]) -> None:
        """Run the operation on records in their order, all or none; their content is inserted."""
        self._run(tx, records)


def insert_content(tx: Transaction, writes: Iterable[Write[Any]]) -> None:
    """Insert the content that the rows of ``writes`` name. Raises StoreFull."""
    blobs = {name: new for write in writes for name, new in write.blobs.items()}
    if blobs:
        tx.blobs.insert(tx.conn, blobs, tx.now)


OPERATIONS: dict[str, Operation[..., Any]] = {}
"""Every operation by name, once ``store.operations`` is imported: a ``Write`` from another process finds its own."""


def operation(function: Callable[Concatenate[Transaction, P], T]) -> Operation[P, T]:
    """Make an operation of a function and register it under the function's name."""
    made = Operation(function)
    OPERATIONS[made.name] = made
    return made


def bulk_operation(
    record: Callable[P, R],
) -> Callable[[Callable[[Transaction, Sequence[R]], None]], BulkOperation[P, R]]:
    """Make an operation of a function of many records of one type and register it under the function's name."""

    def decorate(function: Callable[[Transaction, Sequence[R]], None]) -> BulkOperation[P, R]:
        made = BulkOperation(record, function)
        OPERATIONS[made.name] = made
        return made

    return decorate
