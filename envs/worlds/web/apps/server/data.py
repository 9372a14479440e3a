"""The database of an app: filled from a world at start, then changed by requests."""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

Row = sqlite3.Row


class Data:
    """One SQLite file, used under the site's lock; ``finish`` commits or rolls back the changes of a request.

    The methods that change it, and ``find``, are those of ``changes.Tables``.
    """

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
                self.add(table, **row)
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

    def find(self, table: str, /, **where: Any) -> list[Row]:
        """Return the rows of a table with these values."""
        return self.rows(f"SELECT * FROM {table} WHERE {_matching(where)}", *where.values())

    def add(self, table: str, /, **row: Any) -> int:
        """Insert a row and return its id."""
        return self._run(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", row)

    def link(self, table: str, /, **row: Any) -> None:
        """Insert a row unless it exists."""
        self._run(f"INSERT OR IGNORE INTO {table} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", row)

    def edit(self, table: str, where: Mapping[str, Any], /, **values: Any) -> None:
        """Set values in every row that matches ``where``."""
        changes = ", ".join(f"{name} = ?" for name in values)
        self._run(f"UPDATE {table} SET {changes} WHERE {_matching(where)}", values, where)

    def save(self, table: str, row: Mapping[str, Any], /) -> int:
        """Insert a row or, if it has an ``id``, replace the values of that row; return the id."""
        if "id" not in row:
            return self.add(table, **row)
        self.edit(table, {"id": row["id"]}, **row)
        return int(row["id"])

    def remove(self, table: str, /, **where: Any) -> None:
        """Remove every row that matches ``where``."""
        self._run(f"DELETE FROM {table} WHERE {_matching(where)}", where)

    def _run(self, sql: str, *values: Mapping[str, Any]) -> int:
        if not self._connection.in_transaction:
            self._connection.execute("BEGIN")
        return self._connection.execute(sql, [one for each in values for one in each.values()]).lastrowid or 0

    def finish(self, commit: bool) -> None:
        """Commit or roll back the transaction of a request, if there is one."""
        if self._connection.in_transaction:
            self._connection.execute("COMMIT" if commit else "ROLLBACK")

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def _matching(where: Mapping[str, Any]) -> str:
    return " AND ".join(f"{name} IS ?" for name in where)
