"""Write many rows by the driver, without SQLAlchemy's conversion of each value: the rows have the driver's values.

A row is a tuple: hashes as bytes, UUIDs as hex digits, JSON as text, flags as 0 or 1 in
text (``types.flag_text``), and times as text in UTC (``types.time_text``).
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.exc import DBAPIError

Row = tuple[Any, ...]
_TIMES = frozenset({"created_at", "ended_at"})


class RowInsert:
    """Inserts rows into a table; a row that exists stays as it is."""

    def __init__(self, table: Table, columns: Sequence[str], conflict: str = "") -> None:
        """``columns`` are those of a row; ``conflict`` is the column that identifies a row, by default any key."""
        names = ", ".join(columns)
        target = f" ({conflict})" if conflict else ""
        self._statements = {
            dialect: f"INSERT INTO {table.name} ({names}) VALUES ({', '.join(_marks(dialect, columns))})"  # noqa: S608
            f" ON CONFLICT{target} DO NOTHING"
            for dialect in ("sqlite", "postgresql")
        }

    def run(self, conn: Connection, rows: Sequence[Row]) -> int:
        """Insert ``rows``, and return how many did not exist.

        Raises:
            DBAPIError: the database rejected a row or did not answer.
        """
        return conn.exec_driver_sql(self._statements[conn.dialect.name], list(rows)).rowcount


class BulkInsert(RowInsert):
    """Inserts many rows: on SQLite in one ``executemany``; on PostgreSQL by COPY, at a quarter of the time.

    COPY fails if a row exists: a repeated write then inserts its rows again, one by one.
    """

    def __init__(self, table: Table, columns: Sequence[str]) -> None:
        super().__init__(table, columns)
        self._copy = f"COPY {table.name} ({', '.join(columns)}) FROM STDIN"

    def run(self, conn: Connection, rows: Sequence[Row]) -> int:
        """Insert ``rows``, and return how many did not exist. Raises as ``RowInsert.run`` does."""
        if conn.dialect.name == "sqlite" or not _copied(conn, self._copy, rows):
            return super().run(conn, rows)
        return len(rows)


class RowUpdate:
    """Sets columns of rows, each found by its ``no``."""

    def __init__(self, table: Table, columns: Sequence[str]) -> None:
        """``columns`` are those of a row, which ends with its ``no``."""
        self._statements = {}
        for dialect, mark in (("sqlite", "?"), ("postgresql", "%s")):
            changes = ", ".join(
                f"{name} = {value}" for name, value in zip(columns, _marks(dialect, columns), strict=True)
            )
            self._statements[dialect] = f"UPDATE {table.name} SET {changes} WHERE no = {mark}"  # noqa: S608

    def run(self, conn: Connection, rows: Sequence[Row]) -> None:
        """Update ``rows``. Raises DBAPIError."""
        conn.exec_driver_sql(self._statements[conn.dialect.name], list(rows))


def _marks(dialect: str, columns: Sequence[str]) -> list[str]:
    """Return the parameters of a row. SQLite cuts a time to the form in which SQLAlchemy stores it, without zone."""
    if dialect == "postgresql":
        return ["%s"] * len(columns)
    return ["substr(?, 1, 26)" if name in _TIMES else "?" for name in columns]


def _copied(conn: Connection, statement: str, rows: Sequence[Row]) -> bool:
    """Copy ``rows`` into a table; return False if one of them exists, and then insert none.

    Raises:
        DBAPIError: PostgreSQL rejected a row or did not answer.
    """
    import psycopg

    connection = conn.connection.driver_connection
    if not isinstance(connection, psycopg.Connection):
        raise TypeError(f"a PostgreSQL store needs the driver psycopg, not {type(connection).__module__}")
    try:
        with conn.begin_nested(), connection.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)
    except psycopg.errors.UniqueViolation:
        return False
    except psycopg.Error as error:
        lost = bool(connection.closed)
        if lost:
            conn.invalidate(error)
        raise DBAPIError.instance(
            statement, None, error, psycopg.Error, connection_invalidated=lost, dialect=conn.dialect
        ) from error
    return True
