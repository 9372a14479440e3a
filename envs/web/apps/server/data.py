"""The database of an app: filled from a world at start, then changed by requests."""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

Row = sqlite3.Row


class Data:
    """One SQLite file, used under the site's lock; ``finish`` commits or rolls back the changes of a request."""

    def __init__(self, path: str, schema: str) -> None:
        self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._connection.row_factory = sqlite3.Row
        self._connection.executescript("PRAGMA journal_mode = DELETE; PRAGMA synchronous = OFF;" + schema)
        self._connection.execute("PRAGMA foreign_keys = ON")

    def load(self, tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        """Fill the tables of a new file.

        Raises:
            sqlite3.Error: the world does not fit the schema.
        """
        self._connection.execute("BEGIN")
        self._connection.execute("PRAGMA defer_foreign_keys = ON")
        for table, rows in tables.items():
            for row in rows:
                columns, marks = ", ".join(row), ", ".join("?" * len(row))
                statement = f"INSERT INTO {table} ({columns}) VALUES ({marks})"
                self._connection.execute(statement, tuple(row.values()))
        self._connection.execute("COMMIT")

    def rows(self, sql: str, *values: Any) -> list[Row]:
        """Return all rows of a query."""
        return self._connection.execute(sql, values).fetchall()

    def row(self, sql: str, *values: Any) -> Row | None:
        """Return the first row of a query, or None."""
        found = self._connection.execute(sql, values).fetchone()
        return found if isinstance(found, sqlite3.Row) else None

    def value(self, sql: str, *values: Any) -> Any:
        """Return the first column of the first row; None if there is no row."""
        found = self.row(sql, *values)
        return None if found is None else found[0]

    def run(self, sql: str, *values: Any) -> int:
        """Execute a change and return the id of the last inserted row."""
        if not self._connection.in_transaction:
            self._connection.execute("BEGIN")
        return self._connection.execute(sql, values).lastrowid or 0

    def finish(self, commit: bool) -> None:
        """Commit or roll back the transaction of a request, if there is one."""
        if self._connection.in_transaction:
            self._connection.execute("COMMIT" if commit else "ROLLBACK")

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
