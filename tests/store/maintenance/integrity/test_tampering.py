"""One column or row of an episode, reward or batch is altered, deleted, added or exchanged, and the check finds it.

Each change is made in a transaction that is rolled back, in rows of every kind: a kind is a row of one state, status,
purpose, outcome or location.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest
from sqlalchemy import (
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Float,
    Integer,
    LargeBinary,
    Table,
    Text,
    Uuid,
    and_,
    delete,
    func,
    insert,
    select,
    text,
    update,
)
from sqlalchemy.exc import IntegrityError
from turnwise.store.database import Database
from turnwise.store.maintenance.integrity import COVERED, UNCOVERED_COLUMNS, UNCOVERED_EXCHANGES, check_store
from turnwise.store.maintenance.integrity.rules import VOCABULARIES
from turnwise.store.schema import step, trajectory
from turnwise.store.schema.types import ExactText, Hash, UtcDateTime
from turnwise.tests.store.conftest import new_store
from turnwise.tests.store.maintenance.populated import populate

SHARES = [3, pytest.param(1, marks=pytest.mark.soak)]
"""Once a column was altered with a value and without one, it is altered in one further row of so many."""
KINDS = ("name", "kind", "status", "state", "purpose", "outcome", "location", "abandoned", "fresh", "pruned_at")
"""The columns whose values distinguish kinds of rows."""
Row = Mapping[str, Any]


def other(column: Column[Any], value: Any) -> Any:
    """Return a value of the column's type that differs from ``value``."""
    kind = column.type
    if column in VOCABULARIES:
        return next(word for word in VOCABULARIES[column] if word != value)
    if isinstance(kind, Boolean):
        return not value
    if isinstance(kind, Hash):
        return "ab" * (len(value) // 2 if value else 32)
    if isinstance(kind, UtcDateTime):
        return value - timedelta(days=400) if value else datetime(2026, 1, 1, tzinfo=UTC)
    if isinstance(kind, Uuid):
        return UUID(int=7)
    if isinstance(kind, LargeBinary):
        return bytes([value[0] ^ 1]) + value[1:] if value else b"\x01"
    if isinstance(kind, ExactText | Text):
        return (value or "") + "x"
    if isinstance(kind, Integer):
        return (value or 0) + 1000
    if isinstance(kind, Float):
        return (value or 0.0) + 0.125
    return {"altered": True}


def empty(column: Column[Any], value: Any) -> Any:
    """Return the value of a column without content: NULL where the schema allows it."""
    if column.nullable:
        return None
    kind = column.type
    if isinstance(kind, ExactText | Text):
        return ""
    return 0 if isinstance(kind, Integer | Float) and not isinstance(kind, Boolean) else other(column, value)


def key_of(table: Table, row: Row) -> ColumnElement[bool]:
    return and_(*(column == row[column.name] for column in table.primary_key))


def rows_of_every_kind(conn: Connection, table: Table, whole: bool) -> Sequence[Row]:
    """Return the first row of each kind of a table, with and without turns; with ``whole``, every row.

    The rows of running trajectories, which have no seal yet, are left out.
    """
    owner = table.c.get("trajectory_no", table.c.no if table is trajectory else None)
    statement = select(table).order_by(*table.primary_key)
    if owner is not None:
        statement = statement.where(owner.in_(select(trajectory.c.no).where(trajectory.c.ended_at.is_not(None))))
    rows = [dict(row) for row in conn.execute(statement).mappings()]
    if whole:
        return rows
    owning = set(conn.execute(select(step.c.trajectory_no)).scalars()) if table is trajectory else set[int]()
    status = {row.no: row.status for row in conn.execute(select(trajectory.c.no, trajectory.c.status))}
    first: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        known = tuple(row[name] if name != "pruned_at" else row[name] is None for name in KINDS if name in table.c)
        first.setdefault((*known, row.get("no") in owning, status.get(row.get("trajectory_no", 0))), row)
    for column in table.c:  # and a row with a value in each column
        valued = next((row for row in rows if row[column.name] is not None), rows[0])
        first.setdefault((column.name, *(valued[key.name] for key in table.primary_key)), valued)
    found = list(first.values())
    return [row for at, row in enumerate(found) if row not in found[:at]]


class Tampered(Database):
    """A store that is read through the connection that altered it."""

    def __init__(self, database: Database, conn: Connection) -> None:
        super().__init__(database.url, database.engine, database.blobs)
        self._conn = conn

    @contextmanager
    def read(self) -> Iterator[Connection]:
        yield self._conn


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.soak)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return a new store; each change takes several times as long on PostgreSQL."""
    return new_store(request, tmp_path)


@pytest.fixture
def populated(database: Database) -> Iterator[Tampered]:
    """Yield a store without foreign keys."""
    populate(database)
    with database.engine.connect() as conn:
        if conn.dialect.name == "sqlite":
            conn.connection.cursor().execute("PRAGMA foreign_keys=OFF")
        with conn.begin():
            if conn.dialect.name == "postgresql":
                conn.exec_driver_sql("SET LOCAL session_replication_role = replica")
            yield Tampered(database, conn)
            conn.get_transaction().rollback()  # type: ignore[union-attr]
        conn.invalidate()


def is_found(store: Tampered, tamper: Callable[[Connection], object]) -> bool:
    """Return whether the check finds a change, or the schema refuses it; then undo the change."""
    conn = store._conn
    undo = conn.begin_nested()
    try:
        tamper(conn)
        with closing(cast(Generator[Any, None, None], check_store(store, content=True))) as found:
            return next(found, None) is not None
    except IntegrityError:
        return True
    finally:
        undo.rollback()


def rows(store: Tampered, whole: bool = False) -> Iterator[tuple[Table, Row]]:
    for table in COVERED:
        for row in rows_of_every_kind(store._conn, table, whole):
            yield table, row


def test_the_store_has_nothing_to_find(populated: Tampered) -> None:
    assert [str(one) for one in check_store(populated, content=True)] == []


@pytest.mark.slow
@pytest.mark.parametrize("share", SHARES)
def test_every_altered_column_is_found(populated: Tampered, share: int) -> None:
    assert missed_columns(populated, other, share=share).keys() == UNCOVERED_COLUMNS.keys()


@pytest.mark.soak
@pytest.mark.parametrize("change", [other, empty])
def test_every_altered_column_of_every_row_is_found(
    populated: Tampered, change: Callable[[Column[Any], Any], Any]
) -> None:
    assert missed_columns(populated, change, whole=True).keys() <= UNCOVERED_COLUMNS.keys()


def missed_columns(
    populated: Tampered, change: Callable[[Column[Any], Any], Any], whole: bool = False, share: int = 1
) -> dict[str, Row]:
    """Return the columns whose altered value the check does not find, each with the last such row."""
    missed: dict[str, Row] = {}
    before = set[tuple[Column[Any], bool]]()
    for at, (table, row) in enumerate(rows(populated, whole)):
        for number, column in enumerate(table.c):
            value = change(column, row[column.name])
            case = column, row[column.name] is None
            if value == row[column.name] or (case in before and (at + number) % share):
                continue
            before.add(case)
            altered = update(table).where(key_of(table, row)).values({column.name: value})
            if not is_found(populated, lambda conn, altered=altered: conn.execute(altered)):  # type: ignore[misc]
                missed[f"{table.name}.{column.name}"] = row
    return missed


@pytest.mark.slow
def test_every_deleted_row_is_found(populated: Tampered) -> None:
    missed: dict[str, list[Row]] = {}
    for table, row in rows(populated):
        deleted = delete(table).where(key_of(table, row))
        if not is_found(populated, lambda conn, deleted=deleted: conn.execute(deleted)):  # type: ignore[misc]
            missed.setdefault(f"{table.name} deleted", []).append(row)
    assert not missed


def copy_of(conn: Connection, table: Table, row: Row) -> dict[str, Any]:
    """Return the row with another key, and other values where two rows may not have the same."""
    made = dict(row)
    for column in table.c:
        if column.unique:
            made[column.name] = other(column, row[column.name])
    if "no" in table.c:
        made["no"] = conn.execute(select(func.max(table.c.no) + 1)).scalar_one()
    else:
        *_, last = table.primary_key
        made[last.name] = other(last, row[last.name])
    for name in ("attempt", "score_no"):
        if made.get(name) is not None:
            made[name] += 1000
    return made


@pytest.mark.slow
def test_every_row_that_is_inserted_again_is_found(populated: Tampered) -> None:
    missed: dict[str, list[Row]] = {}
    for table, row in rows(populated):

        def again(conn: Connection, table: Table = table, row: Row = row) -> None:
            conn.execute(insert(table).values(**copy_of(conn, table, row)))

        if not is_found(populated, again):
            missed.setdefault(f"{table.name} inserted again", []).append(row)
    assert not missed


def exchanges(table: Table, first: Row, second: Row) -> Iterator[tuple[str, tuple[Row, Row]]]:
    """Yield two rows with the key of each other, and with each owner of the other (the row that the row refers to), and
    the last of the exchanged columns.
    """
    keys = [column.name for column in table.primary_key]
    owners = [column.name for column in table.c if column.name.endswith("_no") and column.name not in keys]
    for names in (keys, *([name] for name in owners if name not in ("update_no", "score_no"))):
        one, two = ({**a, **{name: b[name] for name in names}} for a, b in ((first, second), (second, first)))
        if one not in (first, second):
            yield names[-1], (one, two)


@pytest.mark.slow
def test_every_pair_of_exchanged_rows_is_found(populated: Tampered) -> None:
    """Of each table the first rows of all kinds with every other: of one run, and of two."""
    missed: dict[str, list[Row]] = {}
    for table in COVERED:
        listed = rows_of_every_kind(populated._conn, table, whole=False)
        pairs = [(one, two) for at, one in enumerate(listed[:4]) for two in listed[at + 1 :]]
        for first, second, name, made in [(*pair, *made) for pair in pairs for made in exchanges(table, *pair)]:

            def swap(
                conn: Connection,
                table: Table = table,
                old: tuple[Row, Row] = (first, second),
                new: tuple[Row, Row] = made,
            ) -> None:
                for row in old:
                    conn.execute(delete(table).where(key_of(table, row)))
                for row in new:
                    conn.execute(insert(table).values(**row))

            if not is_found(populated, swap):
                missed.setdefault(f"{table.name}.{name}", []).append(first)
    assert missed.keys() == UNCOVERED_EXCHANGES.keys(), missed


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)  # PostgreSQL holds no such value
@pytest.mark.parametrize("cell", ["created_at = 'yesterday'", "action = x'ff00'", "idx = 'a'"])
def test_a_value_of_another_type_is_found_and_the_other_checks_are_made(populated: Tampered, cell: str) -> None:
    conn = populated._conn
    conn.execute(text(f"UPDATE step SET {cell} WHERE trajectory_no = 1 AND idx = 0"))  # noqa: S608
    conn.execute(text("UPDATE blob SET size = size + 1"))
    found = list(check_store(populated))
    assert any(one.field == "type" or one.table == "step" for one in found), found
    assert any(one.table == "blob" for one in found), found
