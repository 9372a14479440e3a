"""One inconsistency of a store."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Connection, Row, Select, Table

_FETCH = 1000


@dataclass(frozen=True, slots=True)
class Finding:
    """A field of a row that contradicts the rest of the store."""

    table: str
    row: str
    """The primary key of the row and, where it has one, its id: ``no=7 id=quickstart:0-3``."""
    field: str
    problem: str

    def __str__(self) -> str:
        return f"{self.table} {self.row}, {self.field}: {self.problem}"


def key_columns(table: Table) -> list[Column[Any]]:
    """Return the columns that name a row in a finding: its primary key, and its ``id`` if it has one."""
    keys = list(table.primary_key.columns)
    return [*keys, table.c.id] if "id" in table.c and table.c.id not in keys else keys


def name_of(row: Row[Any], table: Table) -> str:
    """Return the name of a row that was selected with ``key_columns``."""
    return " ".join(f"{column.name}={row._mapping[column]}" for column in key_columns(table))


def streamed(conn: Connection, statement: Select[Any], arguments: dict[str, Any] | None = None) -> Iterator[Row[Any]]:
    """Yield the rows of a statement without holding all of them in memory."""
    with conn.execute(statement.execution_options(yield_per=_FETCH), arguments or {}) as rows:
        yield from rows


def findings(conn: Connection, table: Table, statement: Select[Any], field: str, problem: str) -> Iterator[Finding]:
    """Yield a finding per row of ``statement``, which selects the ``key_columns`` of ``table`` and more.

    ``problem`` is a format string with the names of selected columns, such as ``is {stored}``.
    """
    for row in streamed(conn, statement):
        yield Finding(table.name, name_of(row, table), field, problem.format(**row._mapping))
