"""A write transaction, and the operations that run in one.

An operation is a function ``f(tx, *, ...)`` under ``@operation``. It may run twice with the same arguments, because a
caller repeats a call whose answer was lost: the second run must change nothing. The caller therefore makes the ids.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from sqlalchemy import Connection, Table, func, select

from ..content.blobs import BlobStore
from ..errors import NotFound
from ..schema import Lookup
from ..schema.types import UtcDateTime, utc_now

P = ParamSpec("P")
T = TypeVar("T")

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
    found: dict[str, int] = dict(map(tuple, _numbers(table).run_plain(conn, wanted)))
    if missing := [name for name in wanted if name not in found]:
        raise NotFound(f"no {table.name.removeprefix('rollout_')} {missing[0]} in the store")
    return found


@dataclass(frozen=True, slots=True)
class Write(Generic[T]):
    """One call of an operation, to be run in a transaction elsewhere; ``T`` is the type of its result. Picklable."""

    operation: str
    arguments: Mapping[str, Any]

    def run(self, tx: Transaction) -> T:
        """Run the operation in ``tx``. Raises the operation's exceptions."""
        result: T = OPERATIONS[self.operation](tx, **self.arguments)
        return result


class Operation(Generic[P, T]):
    """A write of the store. Call it inside a transaction, or ``bind`` arguments and hand the ``Write`` to a writer."""

    def __init__(self, function: Callable[Concatenate[Transaction, P], T]) -> None:
        self._function = function
        self.name = function.__name__
        update_wrapper(self, function)

    def __call__(self, tx: Transaction, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._function(tx, *args, **kwargs)

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Write[T]:
        """Return this call as a value. Every argument is passed by keyword."""
        return Write(self.name, kwargs)


OPERATIONS: dict[str, Operation[..., Any]] = {}
"""Every operation by name; filled when ``store.operations`` is imported. A ``Write`` that crossed a process boundary
finds its operation here.
"""


def operation(function: Callable[Concatenate[Transaction, P], T]) -> Operation[P, T]:
    """Make an operation of a function and register it under the function's name."""
    made = Operation(function)
    OPERATIONS[made.name] = made
    return made
