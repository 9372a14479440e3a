"""A write transaction, and the register of the operations that may run in one.

An operation is a plain function ``f(tx, *, ...)``. It may be run twice with the same arguments (a retry after a lost
answer): the second run must change nothing. Ids are therefore made by the caller.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Connection, func, select

from ..content.blobs import BlobStore
from ..types import UtcDateTime, utc_now

Operation = TypeVar("Operation", bound=Callable[..., Any])

_DATABASE_CLOCK = select(func.clock_timestamp(type_=UtcDateTime()))

OPERATIONS: dict[str, Callable[..., Any]] = {}
"""Every write, by name; filled when ``store.operations`` is imported."""


@dataclass(slots=True)
class Transaction:
    """What an operation writes through: one connection in one transaction, and the blobs beside it."""

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


def operation(function: Operation) -> Operation:
    """Registers a write under its name."""
    OPERATIONS[function.__name__] = function
    return function
