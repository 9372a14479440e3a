"""The database of an app as a value: the initial tables, the expected ones, and those found at the end of an episode.

Two end states are equal if all initial rows match, and the new rows match without their ids, which depend on what was
tried in between. A reference to a new row is compared as that row.

The file comes from the sandbox and may hold anything. Invariant: it changes nothing on this machine, and reading it
ends in bounded time and memory.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

from ....draws import NoInstance

Row = dict[str, Any]
Tables = dict[str, list[Row]]
References = Mapping[str, Mapping[str, str]]
"""For each table, the table that each of its foreign keys refers to."""
MAX_VALUES = 1_000_000
MAX_CHARS = 64 << 20
"""Limits of a database; the largest initial world has a few thousand rows."""
TIMEOUT_S = 5.0
"""Limit of all queries of one file; a file of an app takes milliseconds."""
PROGRESS_STEPS = 10_000
"""Steps of SQLite's virtual machine between two looks at the clock."""
MAX_VALUE_BYTES = 1 << 20
"""Limit of one value or row, generated columns included."""
ALLOWED = (sqlite3.SQLITE_READ, sqlite3.SQLITE_SELECT)
ALLOWED_PRAGMAS = ("foreign_key_list", "table_list")
MAX_REFERENCES = 8
"""Longest chain of references between new rows that is compared; the rest compares by id."""


@dataclass
class TableRows:
    """Tables with queries; equal if their rows are."""

    tables: Tables

    def find(self, table: str, /, **where: Any) -> list[Row]:
        """Return the rows with these values, in the table's order."""
        return [row for row in self.tables[table] if all(row[name] == value for name, value in where.items())]


class World(TableRows):
    """The initial data of an app, as ``worlds/`` makes it."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        super().__init__(data["tables"])
        self.today: str = data["today"]

    def row(self, table: str, **where: Any) -> Row:
        """Return the only row with these values. Raises NoInstance: there is none, or more than one."""
        found = self.find(table, **where)
        if len(found) != 1:
            raise NoInstance
        return found[0]

    def expected_state(self) -> "ExpectedState":
        """Return a copy of the data, to which a template applies the requested change."""
        return ExpectedState({table: [dict(row) for row in rows] for table, rows in self.tables.items()})


class ExpectedState(TableRows):
    """The expected tables at the end of a task: the initial ones with the requested change."""

    def add(self, table: str, /, **row: Any) -> int:
        """Add a row and return its id; a table without ids returns 0."""
        rows = self.tables[table]
        if rows and "id" not in rows[0]:
            rows.append(row)
            return 0
        number = max((each["id"] for each in rows), default=0) + 1
        rows.append({"id": number, **row})
        return number

    def link(self, table: str, **row: Any) -> None:
        """Add a row to a table without ids, unless it exists."""
        if row not in self.tables[table]:
            self.tables[table].append(row)

    def edit(self, table: str, where: Mapping[str, Any], /, **values: Any) -> "ExpectedState":
        """Set values in every row that matches ``where``."""
        for row in self.find(table, **where):
            row.update(values)
        return self

    def remove(self, table: str, /, **where: Any) -> "ExpectedState":
        """Remove every row that matches ``where``."""
        removed = self.find(table, **where)
        self.tables[table] = [row for row in self.tables[table] if row not in removed]
        return self


def read(connection: sqlite3.Connection) -> tuple[Tables, References]:
    """Return all rows of a database, and the references of its tables.

    Raises:
        sqlite3.Error: the file is not a database, or its values exceed ``MAX_VALUES`` or ``MAX_CHARS``.
    """
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    tables, references = Tables(), dict[str, Mapping[str, str]]()
    values = chars = 0
    for table in (name for (name,) in found if not name.startswith("sqlite_")):
        quoted = '"' + table.replace('"', '""') + '"'
        cursor = connection.execute(f"SELECT * FROM {quoted}")  # noqa: S608 - a name, quoted
        names = [column[0] for column in cursor.description]
        tables[table] = []
        for row in cursor:
            values += len(row)
            chars += sum(len(value) for value in row if isinstance(value, str | bytes))
            if values > MAX_VALUES or chars > MAX_CHARS:
                raise sqlite3.DataError(f"the database exceeds {MAX_VALUES} values or {MAX_CHARS} characters")
            tables[table].append(dict(zip(names, row, strict=True)))
        keys = connection.execute(f"PRAGMA foreign_key_list({quoted})").fetchall()
        references[table] = {key[3]: key[2] for key in keys}
    return tables, references


def states_equal(one: Tables, other: Tables, initial: Tables, references: References) -> bool:
    """Return whether two end states of the same initial state are equal."""
    changed = [table for table in {**one, **other} if one.get(table, []) != other.get(table, [])]
    return all(
        _canonical(one, table, initial, references) == _canonical(other, table, initial, references)
        for table in changed
    )


def _canonical(tables: Tables, table: str, initial: Tables, references: References) -> list[str]:
    """Return a table's rows as sorted strings, without the ids of new rows and with references to them resolved."""
    known = {name: {row.get("id") for row in rows} for name, rows in initial.items()}

    def text_of(name: str, row: Row, depth: int = 0) -> str:
        old = row.get("id") in known.get(name, ())
        values = [
            (column, resolved(references.get(name, {}).get(column), value, depth))
            for column, value in sorted(row.items())
            if column != "id" or old
        ]
        return repr(values)

    def resolved(name: str | None, value: Any, depth: int) -> Any:
        if name is None or value is None or value in known.get(name, ()) or depth == MAX_REFERENCES:
            return value
        new = [row for row in tables.get(name, []) if row.get("id") == value]
        return text_of(name, new[0], depth + 1) if new else value

    return sorted(text_of(table, row) for row in tables.get(table, []))


@contextmanager
def opened(data: bytes | Path) -> Iterator[sqlite3.Connection]:
    """Open a copy of a database, such as ``final.files["shop.db"]``: no journal, no function, no write.

    Raises:
        sqlite3.Error: from a query, if the bytes are not a database, or the query exceeds a limit.
    """
    with ExitStack() as stack:
        path = Path(stack.enter_context(TemporaryDirectory(prefix="tw-site-"))) / "database"
        path.write_bytes(data if isinstance(data, bytes) else data.read_bytes())
        connection = stack.enter_context(closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)))
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
