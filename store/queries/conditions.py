"""Conditions and counts that many queries of one run share."""

from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Table, false, func, select

from ...records import Purpose
from ..schema import no_of
from ..schema import run as run_table


def of_run(table: Table, run: str) -> ColumnElement[bool]:
    """Return the condition that a row belongs to a run."""
    return table.c.run_no == no_of(run_table, run)


def surviving(table: Table, run: str) -> ColumnElement[bool]:
    """Return the condition that a row belongs to a run and no resume abandoned it."""
    return of_run(table, run) & (table.c.abandoned == false())


def training(table: Table, run: str) -> ColumnElement[bool]:
    """Return the condition that a group or a trajectory of a run is for training."""
    return of_run(table, run) & (table.c.purpose == Purpose.TRAIN.value)


def row_count(conn: Connection, *where: ColumnElement[bool]) -> int:
    """Return the number of rows of the tables that the conditions name."""
    return conn.execute(select(func.count()).where(*where)).scalar_one()


def counts_by(conn: Connection, column: Column[Any], *where: ColumnElement[bool]) -> dict[Any, int]:
    """Return the number of rows per value of a column, in the order of the values."""
    which = select(column, func.count()).where(*where).group_by(column).order_by(column)
    return dict(map(tuple, conn.execute(which)))
