"""Statements and lookups that many operations and queries use."""

import json
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import Any

from sqlalchemy import (
    ARRAY,
    Column,
    Connection,
    Insert,
    Row,
    ScalarSelect,
    Select,
    Table,
    any_,
    bindparam,
    select,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite

KEYS_MAX = 500
"""Values of one ``IN``: SQLite and PostgreSQL limit the parameters of a statement."""


def no_of(table: Table, name: object) -> ScalarSelect[int]:
    """Return the subquery of ``no`` of the row of ``table`` whose ``id`` is ``name``, a value or a bound parameter."""
    return select(table.c.no).where(table.c.id == name).scalar_subquery()


@cache
def insert_once(dialect: str, table: Table) -> Insert:
    """Return an insert into ``table`` that leaves a row of the same id, or else the same primary key, as it is.

    This is why a repeated write has no second effect. Cached, so that SQLAlchemy compiles each statement once.
    """
    keys = ["id"] if "no" in table.c else [column.name for column in table.primary_key]
    insert = postgresql.insert if dialect == "postgresql" else sqlite.insert
    return insert(table).on_conflict_do_nothing(index_elements=keys)


def among(conn: Connection, statement: Select[Any], column: Any, keys: Iterable[Any]) -> list[Row[Any]]:
    """Return the rows of a statement that have one of ``keys`` in ``column``, however many keys those are."""
    wanted = sorted(set(keys))
    which = statement.where(column.in_(bindparam("keys", expanding=True)))
    parts = (wanted[start : start + KEYS_MAX] for start in range(0, len(wanted), KEYS_MAX))
    return [row for part in parts for row in conn.execute(which, {"keys": part})]


class Lookup:
    """A query with the condition that ``column`` has one of many values, which are one parameter: the database and
    SQLAlchemy compile it once, whatever the number of values.

    The order of ``statement`` is that in which PostgreSQL locks the rows; SQLite, which locks the whole file, returns
    them in any order.
    """

    def __init__(self, statement: Select[Any], column: Column[Any]) -> None:
        listed = text("SELECT value FROM json_each(:wanted)")
        self._statements = {
            "sqlite": statement.order_by(None).where(column.in_(listed)),
            "postgresql": statement.where(column == any_(bindparam("wanted", type_=ARRAY(column.type)))),
        }
        self._compiled: dict[str, str] = {}

    def run(self, conn: Connection, values: Collection[Any]) -> Sequence[Any]:
        """Return the rows that have one of ``values``, texts or whole numbers.

        The rows have the values of the driver, without the conversion of each value by its column's type.
        """
        wanted = sorted(set(values))
        dialect = conn.dialect.name
        if dialect not in self._compiled:
            self._compiled[dialect] = str(self._statements[dialect].compile(dialect=conn.dialect))
        arguments = (json.dumps(wanted),) if dialect == "sqlite" else {"wanted": wanted}
        return conn.exec_driver_sql(self._compiled[dialect], arguments).all()
