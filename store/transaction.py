"""A write transaction, and the register of the operations that may run in one.

An operation is a plain function ``f(tx, *, ...)``. It may be run twice with the same arguments (a retry after a lost
answer): the second run must change nothing. Ids are therefore made by the caller.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Connection

from .blobs import BlobStore
from .types import utc_now

Operation = TypeVar("Operation", bound=Callable[..., Any])

OPERATIONS: dict[str, Callable[..., Any]] = {}
"""Every write, by name; filled when ``store.operations`` is imported."""


@dataclass(slots=True)
class Transaction:
    """What an operation writes through: one connection in one transaction, and the blobs beside it."""

    conn: Connection
    blobs: BlobStore
    now: datetime = field(default_factory=utc_now)


def operation(function: Operation) -> Operation:
    """Registers a write under its name."""
    OPERATIONS[function.__name__] = function
    return function
