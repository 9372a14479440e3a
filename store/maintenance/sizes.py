"""How many bytes a store takes: its tables, and its files of content; and the statistics of `turnwise db stats`."""

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection, func, select, text
from sqlalchemy.exc import DBAPIError

from ...base.masking import without_secrets
from ..content.blobs import IN_FOLDER
from ..database import Database
from ..database_errors import to_store_error
from ..schema import blob, metadata, step, trajectory


@dataclass(frozen=True, slots=True)
class StoreSize:
    """The bytes of a store.

    A deletion frees pages of the database, which later writes fill again. ``database`` shrinks only when the store is
    vacuumed.
    """

    database: int
    """Bytes that tables and indexes take, free pages included."""
    free: int
    """Bytes of ``database`` in free pages; on PostgreSQL an estimate from the statistics of its tables."""
    files: int
    """Bytes of the content in the blob folder."""
    log: int = 0
    """Bytes of the write-ahead log of SQLite, which is cut to 64 MiB: not a part of ``used`` and ``total``."""

    @property
    def used(self) -> int:
        """Bytes in use: all except the free pages."""
        return self.database - self.free + self.files

    @property
    def total(self) -> int:
        """Bytes that the store takes on its disks."""
        return self.database + self.files


def measure(database: Database) -> StoreSize:
    """Return the size of the store. On PostgreSQL, vacuum and analyze its tables first, while others write."""
    is_sqlite = database.engine.dialect.name == "sqlite"
    if not is_sqlite:
        _maintain(database, "VACUUM (ANALYZE) {}")
    with database.read() as conn:
        files = int(conn.execute(_FILES).scalar_one())
        if not is_sqlite:
            total = sum(table_bytes(conn).values())
            live = int(conn.execute(_LIVE, {"names": _names()}).scalar_one())
            return StoreSize(total, max(total - live, 0), files)
        page, pages, free = (
            int(conn.exec_driver_sql(f"PRAGMA {name}").scalar_one())
            for name in ("page_size", "page_count", "freelist_count")
        )
    log = Path(f"{database.engine.url.database}-wal")
    return StoreSize(pages * page, free * page, files, log.stat().st_size if log.exists() else 0)


_FILES = select(func.coalesce(func.sum(blob.c.size), 0)).where(blob.c.location == IN_FOLDER)


_LIVE = text(
    """
    SELECT coalesce(sum(
        pg_indexes_size(c.oid)
        + greatest(c.reltuples, 0) * (28 + (SELECT coalesce(sum(s.avg_width), 0) FROM pg_stats s
                                            WHERE s.schemaname = n.nspname AND s.tablename = c.relname))
        + greatest(coalesce(t.reltuples, 0), 0) * 2032), 0)
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN pg_class t ON t.oid = c.reltoastrelid
    WHERE c.relkind = 'r' AND n.nspname = current_schema() AND c.relname = ANY(:names)
    """
)
"""28 bytes are the header and line pointer of a row; 2032 those of a full chunk of a long value."""
_TABLES = text(
    "SELECT relname, pg_total_relation_size(oid) FROM pg_class "
    "WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace AND relname = ANY(:names)"
)
_PAGES = text(
    "SELECT coalesce((SELECT tbl_name FROM sqlite_master m WHERE m.name = s.name), s.name), sum(pgsize) "
    "FROM dbstat s WHERE aggregate = TRUE GROUP BY 1"
)


def table_bytes(conn: Connection) -> dict[str, int]:
    """Return the bytes of each table with its indexes. On SQLite this reads every page of the file."""
    rows = conn.execute(_PAGES) if conn.dialect.name == "sqlite" else conn.execute(_TABLES, {"names": _names()})
    return {name: int(size) for name, size in rows}


def _names() -> list[str]:
    return [*metadata.tables, "search_index"]


def vacuum(database: Database) -> None:
    """Give the free pages of the database back to the file system; other writers wait meanwhile.

    Raises:
        StoreFull: the disk has no room for a second copy of the database.
        StoreUnavailable: another program kept the database locked.
    """
    if database.engine.dialect.name == "sqlite":
        _maintain(database, "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)")
    else:
        _maintain(database, "VACUUM (FULL, ANALYZE) {}")


def _maintain(database: Database, *statements: str) -> None:
    """Run statements outside of a transaction; ``{}`` stands for the names of the tables."""
    names = ", ".join(metadata.tables)
    try:
        if database.engine.dialect.name == "sqlite":
            with database.engine.connect() as conn, closing(conn.connection.cursor()) as cursor:
                for statement in statements:
                    cursor.execute(statement)
        else:
            with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
                for statement in statements:
                    conn.exec_driver_sql(statement.format(names))
    except sqlite3.OperationalError as error:
        raise to_store_error(DBAPIError("VACUUM", None, error), without_secrets(database.url)) from error
    except DBAPIError as error:
        raise to_store_error(error, without_secrets(database.url)) from error


@dataclass(frozen=True, slots=True)
class TableStats:
    """One table."""

    rows: int
    bytes: int
    """With its indexes."""


@dataclass(frozen=True, slots=True)
class BlobStats:
    """The blobs of one media type and location."""

    media_type: str
    location: str
    count: int
    bytes: int
    """Of the content, before compression."""


@dataclass(frozen=True, slots=True)
class StoreStats:
    """What ``turnwise db stats`` shows."""

    size: StoreSize
    tables: dict[str, TableStats]
    blobs: list[BlobStats]
    steps: int
    bytes_per_step: float | None
    """Bytes in use per step; None without steps."""
    pruned: int
    """Trajectories whose content retention removed."""
    oldest: datetime | None
    """When the oldest trajectory began."""
    newest: datetime | None


def store_stats(database: Database) -> StoreStats:
    """Return the statistics of a store. This counts every row and, on SQLite, reads every page."""
    size = measure(database)
    with database.read() as conn:
        sizes = table_bytes(conn)
        counts = {name: select(func.count()).select_from(table) for name, table in metadata.tables.items()}
        rows = {name: conn.execute(count).scalar_one() for name, count in counts.items()}
        tables = {name: TableStats(count, sizes.get(name, 0)) for name, count in rows.items()}
        index = sum(taken for name, taken in sizes.items() if name.startswith("search_index"))
        if index:
            tables["search_index"] = TableStats(0, index)
        pruned = conn.execute(
            select(func.count()).select_from(trajectory).where(trajectory.c.pruned_at.is_not(None))
        ).scalar_one()
        oldest, newest = conn.execute(
            select(func.min(trajectory.c.created_at), func.max(trajectory.c.created_at))
        ).one()
        steps = rows[step.name]
        per_step = size.used / steps if steps else None
        return StoreStats(size, tables, _blobs(conn), steps, per_step, pruned, oldest, newest)


def _blobs(conn: Connection) -> list[BlobStats]:
    groups = select(blob.c.media_type, blob.c.location, func.count(), func.coalesce(func.sum(blob.c.size), 0)).group_by(
        blob.c.media_type, blob.c.location
    )
    rows = conn.execute(groups.order_by(blob.c.media_type, blob.c.location))
    return [BlobStats(kind, location, count, int(size)) for kind, location, count, size in rows]
