"""Classify the errors of a database, and retry the transient ones.

A full disk becomes StoreFull, a transient error StoreUnavailable; anything else is a bug and keeps its type. Every
SQLSTATE and message that counts as transient is listed here and nowhere else.
"""

import errno
import time
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.exc import DBAPIError

from .errors import StoreError, StoreFull, StoreUnavailable

RETRY_S = 30.0
"""Seconds of retries before the error is raised."""
PAUSE_S = 0.05
"""Seconds before the first retry; doubles with each, up to ``PAUSE_MAX_S``."""
PAUSE_MAX_S = 2.0

T = TypeVar("T")

_SQLITE_FULL = ("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_FSYNC")
_SQLITE_CLOSED = ("unable to open database file", "file is not a database", "attempt to write a readonly database")
_SQLITE_BUSY = ("database is locked", "database table is locked", "database schema is locked")
_POSTGRES_FULL = ("53100",)
_POSTGRES_PASSING = ("40001", "40P01", "55P03", "57P01", "57P02", "57P03", "53300")


def is_full(error: DBAPIError) -> bool:
    """Whether the database said that there is no room."""
    origin = error.orig
    if getattr(origin, "sqlstate", None) in _POSTGRES_FULL:
        return True
    if isinstance(origin, OSError) and origin.errno == errno.ENOSPC:
        return True
    return getattr(origin, "sqlite_errorname", "") in _SQLITE_FULL


def is_passing(error: DBAPIError) -> bool:
    """Whether the same transaction may succeed when it is tried again: a lock, a lost connection, a deadlock."""
    origin = error.orig
    state = getattr(origin, "sqlstate", None)
    if error.connection_invalidated or state in _POSTGRES_PASSING or (state or "").startswith("08"):
        return True
    message = str(origin).lower()
    if type(origin).__name__ == "OperationalError" and state is None and type(origin).__module__.startswith("psycopg"):
        return True
    return any(phrase in message for phrase in _SQLITE_BUSY)


def explain(error: DBAPIError, url: str) -> Exception:
    """The error a person should see; ``error`` itself where it is nobody's fault but ours."""
    if is_full(error):
        return StoreFull(
            f"no room left for the store {url}: {error.orig}. What was committed is safe; "
            "free some space and run the same command again"
        )
    if is_passing(error):
        return StoreUnavailable(
            f"the store {url} did not answer: {error.orig}; is it running, and is nothing else holding it?"
        )
    if any(phrase in str(error.orig) for phrase in _SQLITE_CLOSED):
        return StoreError(
            f"the store {url} cannot be used: {error.orig}; check its path, its owner and its permissions"
        )
    return error


def retried(work: Callable[[], T], seconds: float = RETRY_S) -> T:
    """The result of ``work``, called again while it raises StoreUnavailable.

    Raises:
        StoreUnavailable: it did for ``seconds``.
    """
    deadline = time.monotonic() + seconds
    pause = PAUSE_S
    while True:
        try:
            return work()
        except StoreUnavailable:
            if time.monotonic() + pause > deadline:
                raise
        time.sleep(pause)
        pause = min(2 * pause, PAUSE_MAX_S)
