"""The metadata of the tables, and the kinds of columns and indexes that they share."""

from typing import Any

from sqlalchemy import JSON, Column, Identity, Integer, MetaData, text
from sqlalchemy.dialects import postgresql

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

Document = JSON().with_variant(postgresql.JSONB(), "postgresql")
"""A JSON value; a missing one is the JSON value null."""
OptionalDocument = JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")
"""A JSON value; a missing one is NULL."""
Number = Integer
"""A surrogate key, of 4 bytes: the rows and indexes that grow with every turn hold it."""


def number() -> Column[int]:
    """Return the column ``no``: a surrogate key that the database counts up."""
    return Column("no", Number, Identity(always=False), primary_key=True)


def surviving(condition: str = "") -> dict[str, Any]:
    """Return the condition of a partial index over rows that no resume abandoned.

    SQLite uses such an index only for a query whose condition is written in the same way.
    """
    also = f"{condition} AND " if condition else ""
    sqlite_also = f"{condition} = 1 AND " if condition else ""
    return {"sqlite_where": text(f"{sqlite_also}abandoned = 0"), "postgresql_where": text(f"{also}NOT abandoned")}


def where(condition: str) -> dict[str, Any]:
    return {"sqlite_where": text(condition), "postgresql_where": text(condition)}
