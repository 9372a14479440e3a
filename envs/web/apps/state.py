"""The data of a site as a value: the tables it begins with, those wanted at the end, and those found there.

Two states are the same if every row that was there from the start is the same, and the rows that are new are the same
but for their ids, which depend on what was tried in between. A reference to a new row counts as that row.
"""

import sqlite3
from collections.abc import Mapping
from typing import Any

from .draws import NoInstance

Row = dict[str, Any]
Tables = dict[str, list[Row]]
References = Mapping[str, Mapping[str, str]]
"""For each table, the table that a column refers to."""


class World:
    """The start of a site, as ``world_*.world`` makes it, with questions to ask of it."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.tables: Tables = data["tables"]
        self.today: str = data["today"]

    def rows(self, table: str, **where: Any) -> list[Row]:
        """The rows with these values, by order of the table."""
        return [row for row in self.tables[table] if all(row[name] == value for name, value in where.items())]

    def row(self, table: str, **where: Any) -> Row:
        """The one row with these values.

        Raises:
            NoInstance: there is none, or more than one.
        """
        found = self.rows(table, **where)
        if len(found) != 1:
            raise NoInstance
        return found[0]

    def after(self) -> "After":
        """A copy to change."""
        return After({table: [dict(row) for row in rows] for table, rows in self.tables.items()})


class After:
    """The wanted end of a task, made by changing its start."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    def add(self, table: str, **row: Any) -> int:
        """Add a row; a table with ids gives it one, which is returned."""
        rows = self.tables[table]
        if rows and "id" not in rows[0]:
            rows.append(row)
            return 0
        number = max((each["id"] for each in rows), default=0) + 1
        rows.append({"id": number, **row})
        return number

    def link(self, table: str, **row: Any) -> None:
        """Add a row to a table without ids, unless it is there."""
        if row not in self.tables[table]:
            self.tables[table].append(row)

    def edit(self, table: str, where: Mapping[str, Any], **values: Any) -> "After":
        """Change every row that holds ``where``."""
        for row in self._matching(table, where):
            row.update(values)
        return self

    def remove(self, table: str, **where: Any) -> "After":
        """Remove every row that holds ``where``."""
        gone = self._matching(table, where)
        self.tables[table] = [row for row in self.tables[table] if row not in gone]
        return self

    def _matching(self, table: str, where: Mapping[str, Any]) -> list[Row]:
        return [row for row in self.tables[table] if all(row[name] == value for name, value in where.items())]


def read(connection: sqlite3.Connection) -> tuple[Tables, References]:
    """All rows of a database, and what its columns refer to.

    Raises:
        sqlite3.Error: this is no database.
    """
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    tables, references = Tables(), dict[str, Mapping[str, str]]()
    for (table,) in found.fetchall():
        cursor = connection.execute(f'SELECT * FROM "{table}"')  # noqa: S608 - a name the database gave
        names = [column[0] for column in cursor.description]
        tables[table] = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        keys = connection.execute(f'PRAGMA foreign_key_list("{table}")').fetchall()
        references[table] = {key[3]: key[2] for key in keys}
    return tables, references


def same(one: Tables, other: Tables, start: Tables, references: References) -> bool:
    """Whether two ends of the same start are the same."""
    tables = [table for table in {**one, **other} if one.get(table, []) != other.get(table, [])]
    return all(
        _canonical(one, table, start, references) == _canonical(other, table, start, references) for table in tables
    )


def _canonical(tables: Tables, table: str, start: Tables, references: References) -> list[str]:
    known = {name: {row.get("id") for row in rows} for name, rows in start.items()}

    def told(name: str, row: Row) -> str:
        old = row.get("id") in known.get(name, ())
        values = [
            (column, pointed(references.get(name, {}).get(column), value))
            for column, value in sorted(row.items())
            if column != "id" or old
        ]
        return repr(values)

    def pointed(name: str | None, value: Any) -> Any:
        if name is None or value is None or value in known.get(name, ()):
            return value
        new = [row for row in tables.get(name, []) if row.get("id") == value]
        return told(name, new[0]) if new else value

    return sorted(told(table, row) for row in tables.get(table, []))
