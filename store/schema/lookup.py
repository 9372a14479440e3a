"""Queries of the rows that have one of many values in a column."""

import json
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import ARRAY, Column, Connection, Select, any_, bindparam, text


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
