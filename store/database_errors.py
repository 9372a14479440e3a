"""Classify the errors of a database, and retry the transient ones.

A full disk becomes StoreFull, a transient error StoreUnavailable, another error of the whole database StoreUnusable;
anything else is a bug and keeps its type. Every SQLSTATE and message that counts as transient is listed here and
nowhere else.
"""

import errno
import re
import time
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.exc import DBAPIError

from .errors import StoreError, StoreFull, StoreGone, StoreUnavailable, StoreUnusable

RETRY_S = 30.0
"""Seconds of retries before the error is raised."""
PAUSE_S = 0.05
"""Seconds before the first retry; doubles with each, up to ``PAUSE_MAX_S``."""
PAUSE_MAX_S = 2.0

T = TypeVar("T")

_SQLITE_FULL = ("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_FSYNC")
_SQLITE_CLOSED = (
    "unable to open database file",
    "file is not a database",
    "attempt to write a readonly database",
    "disk I/O error",  # also that of a FIFO and of a file of the kernel
)
_SQLITE_DAMAGED = ("database disk image is malformed",)
_SQLITE_BUSY = ("database is locked", "database table is locked", "database schema is locked")
_NO_TABLE = "no such table"
_POSTGRES_NO_TABLE = ("42P01", "3F000")
_POSTGRES_NO_DATABASE = re.compile(r'database ".*" does not exist')
_POSTGRES_OPTIONS = ("invalid connection option", "invalid uri query parameter")
_POSTGRES_READ_ONLY = ("25006",)
_POSTGRES_FULL = ("53100",)
_POSTGRES_TRANSIENT = ("40001", "40P01", "55P03", "57P01", "57P02", "57P03", "53300")


def is_full(error: DBAPIError) -> bool:
    """Return whether the disk of the database is full."""
    origin = error.orig
    if getattr(origin, "sqlstate", None) in _POSTGRES_FULL:
        return True
    if isinstance(origin, OSError) and origin.errno == errno.ENOSPC:
        return True
    return getattr(origin, "sqlite_errorname", "") in _SQLITE_FULL


def is_transient(error: DBAPIError) -> bool:
    """Return whether a retry of the transaction may succeed: the error is a lock, a deadlock or a lost connection."""
    origin = error.orig
    state = getattr(origin, "sqlstate", None)
    if error.connection_invalidated or state in _POSTGRES_TRANSIENT or (state or "").startswith("08"):
        return True
    message = str(origin).lower()
    if type(origin).__name__ == "OperationalError" and state is None and type(origin).__module__.startswith("psycopg"):
        return True
    return any(phrase in message for phrase in _SQLITE_BUSY)


def to_store_error(error: DBAPIError | UnicodeEncodeError, url: str) -> Exception:
    """Return the StoreError that explains ``error`` to the user, or ``error`` itself if it is a bug."""
    if isinstance(error, UnicodeEncodeError):
        return StoreError(f"the name {error.object!a} is not UTF-8, so no row of the store has it; correct the name")
    if is_full(error):
        return StoreFull(
            f"no room left for the store {url}: {error.orig}. Committed writes are safe: "
            "free some space, or raise the limit on files (`ulimit -f`), and run the same command again"
        )
    if _is_gone(error):
        return StoreGone(
            f"the store {url} is gone: {str(error.orig).strip().splitlines()[0]}; it was dropped or "
            "replaced while it was in use, or its URL names another database: restore it, or correct the URL"
        )
    if any(phrase in str(error.orig).lower() for phrase in _POSTGRES_OPTIONS):
        return StoreUnusable(
            f"the store {url} cannot be used: {str(error.orig).strip()}; correct the parameters after the `?` of its "
            "URL: PostgreSQL's connection parameters, such as `user`, `password` and `sslmode`"
        )
    if is_transient(error):
        return StoreUnavailable(
            f"the store {url} did not answer: {error.orig}; check that it is running and that no other program locks it"
        )
    if any(phrase in str(error.orig) for phrase in _SQLITE_DAMAGED):
        return StoreUnusable(
            f"the store {url} is damaged: {error.orig}; restore a backup, or recover what can be read by the program "
            "`sqlite3` and its command `.recover`"
        )
    is_read_only = getattr(error.orig, "sqlstate", None) in _POSTGRES_READ_ONLY
    if is_read_only or any(phrase in str(error.orig) for phrase in _SQLITE_CLOSED):
        return StoreUnusable(
            f"the store {url} cannot be used: {error.orig}; check its path, its owner and its permissions"
        )
    return error


def _is_gone(error: DBAPIError) -> bool:
    """Return whether the database, or a table of it, does not exist."""
    state, message = getattr(error.orig, "sqlstate", None), str(error.orig)
    if state == "3D000" or state in _POSTGRES_NO_TABLE or _POSTGRES_NO_DATABASE.search(message):
        return True
    return message.startswith(_NO_TABLE)


def retried(work: Callable[[], T], timeout_s: float = RETRY_S) -> T:
    """Return the result of ``work``, which is called again while it raises StoreUnavailable.

    Raises:
        StoreUnavailable: it did so for ``timeout_s`` seconds.
    """
    deadline = time.monotonic() + timeout_s
    pause = PAUSE_S
    while True:
        try:
            return work()
        except StoreUnavailable:
            if time.monotonic() + pause > deadline:
                raise
        time.sleep(pause)
        pause = min(2 * pause, PAUSE_MAX_S)
