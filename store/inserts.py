"""Inserts that leave a row which is already there as it is: what makes a repeated write have no second effect."""

from functools import cache

from sqlalchemy import Insert, Table
from sqlalchemy.dialects import postgresql, sqlite


@cache
def insert_once(dialect: str, table: Table) -> Insert:
    """An insert into ``table`` that does nothing where the primary key exists. Cached, so that it is compiled once."""
    keys = [column.name for column in table.primary_key]
    if dialect == "postgresql":
        return postgresql.insert(table).on_conflict_do_nothing(index_elements=keys)
    return sqlite.insert(table).on_conflict_do_nothing(index_elements=keys)
