"""Open the database file of an app, which comes from the sandbox and may hold anything.

Invariant: a file changes nothing on this machine, and a query ends in bounded time; ``state.read`` bounds the memory.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from time import monotonic

TIMEOUT_S = 5.0
"""Limit of all queries of one file; a file of an app takes milliseconds."""
PROGRESS_STEPS = 10_000
"""Steps of SQLite's virtual machine between two looks at the clock."""
MAX_VALUE_BYTES = 1 << 20
"""Limit of one value or row, generated columns included."""
ALLOWED = (sqlite3.SQLITE_READ, sqlite3.SQLITE_SELECT)
ALLOWED_PRAGMAS = ("foreign_key_list", "table_list")


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a file for reading only: no journal, no function, no other file, no write.

    Raises:
        sqlite3.Error: from a query, if the file is not a database, or the query exceeds a limit.
    """
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
        for setting in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0", "query_only = ON"):
            connection.execute(f"PRAGMA {setting}")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
        until = monotonic() + TIMEOUT_S
        connection.set_progress_handler(lambda: monotonic() > until, PROGRESS_STEPS)
        connection.set_authorizer(_authorize)
        yield connection


def _authorize(action: int, name: str | None, *_: str | None) -> int:
    allowed = action in ALLOWED or (action == sqlite3.SQLITE_PRAGMA and name in ALLOWED_PRAGMAS)
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY
