"""Open a store: SQLite in WAL mode by default, PostgreSQL by URL, each with its place for blobs.

On SQLite a write transaction takes the lock when it begins (``BEGIN IMMEDIATE``), so two writers wait for each other
instead of failing. With ``synchronous=NORMAL`` a committed write survives the death of any process; a power failure may
lose the commits since the last durable one, and never corrupts the database.
"""

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, func, select
from sqlalchemy.engine import make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DBAPIError, DisconnectionError
from sqlalchemy.pool import ConnectionPoolEntry

from ..base.masking import without_secrets
from ..base.process.start import absolute
from . import migrate
from .content.blob_root import read_blob_root
from .content.blobs import BlobStore
from .database_errors import RETRY_S, to_store_error
from .errors import StoreError, StoreUnusable, WrongRevision
from .operations.transaction import Transaction
from .schema.types import dump_json, load_json

BUSY_TIMEOUT_S = 30.0
"""Seconds that a connection waits for the lock of another."""
PING_AFTER_S = 1.0
"""Seconds without use after which a connection to PostgreSQL is tested before its next use."""

WRITE_PRAGMAS = (
    "journal_mode=WAL",
    "synchronous=NORMAL",
    "foreign_keys=ON",
    "wal_autocheckpoint=4000",
    "journal_size_limit=67108864",
)
READ_PRAGMAS = "temp_store=MEMORY", "cache_size=-65536"
_WRITE = "turnwise_write"
_SNAPSHOT: dict[str, Any] = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
"""Options of a PostgreSQL connection for queries. By default each statement there reads its own snapshot."""
_OTHER_SYNTAX = re.compile(r"[A-Za-z][\w+.-]*:/|(?:host|hostaddr|port|user|password|dbname|service)\s*=")
"""The beginning of a URL with one slash, or of a connection string of PostgreSQL: not of a path."""


class Database:
    """An open store: the ``url`` it was opened with, SQLAlchemy's ``engine``, and the ``blobs``."""

    def __init__(self, url: str, engine: Engine, blobs: BlobStore, *, read_only: bool = False) -> None:
        self.url = url
        self.engine = engine
        self.blobs = blobs
        self.retry_s = RETRY_S
        """Seconds for which a run retries a read or write while the database is locked or away."""
        self._reading = engine.execution_options(**_SNAPSHOT) if engine.dialect.name == "postgresql" else engine
        self._writing = self._reading if read_only else engine.execution_options(**{_WRITE: True})

    @property
    def address(self) -> str:
        """The URL, or the absolute path of the SQLite file: it opens the store in every process of this host."""
        return str(self.engine.url.database) if self.engine.dialect.name == "sqlite" else self.url

    def wait_for_outages(self, timeout_s: float) -> None:
        """From now on, wait ``timeout_s`` for a server that is away. An SQLite file has none."""
        if self.engine.dialect.name == "postgresql":
            self.retry_s = timeout_s

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[Transaction]:
        """Open a write transaction: committed at the end, rolled back if anything raises.

        Args:
            durable: whether the commit survives a power failure, with all commits before it. On PostgreSQL every commit
                does, unless the server is configured otherwise.

        Raises:
            StoreFull: the disk is full.
            StoreUnavailable: the database did not answer, or stayed locked for ``BUSY_TIMEOUT_S``.
            StoreGone: the database, or a table of it, was dropped.
        """
        try:
            with self._writing.connect() as conn, _synced(conn) if durable else nullcontext(), conn.begin():
                yield Transaction(conn, self.blobs)
        except (DBAPIError, UnicodeEncodeError) as error:
            raise to_store_error(error, without_secrets(self.url)) from error

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a connection for queries, which all read the same snapshot and never wait for a writer.

        Raises:
            StoreUnavailable: the database did not answer.
            StoreGone: as for ``transaction``.
        """
        try:
            with self._reading.connect() as conn:
                yield conn
        except (DBAPIError, UnicodeEncodeError) as error:
            raise to_store_error(error, without_secrets(self.url)) from error

    def close(self) -> None:
        """Close the connections that are not in use."""
        self.engine.dispose()


@contextmanager
def _synced(conn: Connection) -> Iterator[None]:
    """Sync the SQLite file at each commit of ``conn``; SQLite changes that outside of transactions only."""
    connection = conn.connection.driver_connection
    if not isinstance(connection, sqlite3.Connection):
        yield
        return
    connection.execute("PRAGMA synchronous=FULL")
    try:
        yield
    finally:
        if connection.in_transaction:  # its commit failed, and that error is to be raised
            connection.rollback()
        connection.execute("PRAGMA synchronous=NORMAL")


def open_database(url: str, *, create: bool = False, blobs: str | None = None, read_only: bool = False) -> Database:
    """Open the store at ``url``.

    Args:
        url: an SQLAlchemy URL, or the path of an SQLite file, which contains a ``/`` or ends in ``.db`` or ``.sqlite``.
        create: make a missing or empty database. An existing one is never upgraded silently.
        blobs: the folder or fsspec URL of large content; also ``?blobs=`` in the URL, or ``TURNWISE_BLOBS``. By default
            the folder that the store has recorded. A new store uses the folder ``NAME.blobs`` next to an SQLite file
            ``NAME.db`` (``NAME.sqlite.blobs`` for ``NAME.sqlite``); none on PostgreSQL, which then keeps all content.
        read_only: the database itself refuses every write of these connections.

    Raises:
        WrongRevision: the schema is at another revision; the message names the command that upgrades it.
        StoreError: the database is missing or cannot be opened, or the blob folder is not this store's.
    """
    database = _connect(url, blobs, create, read_only=read_only)
    try:
        _refuse_pooler(database)
        revision = _revision(database)
        if revision is None and create:
            _upgrade(database)
        elif revision is None:
            raise StoreError(
                f"{_place(database)} holds no turnwise store; make one with "
                f"`turnwise db upgrade --store {without_secrets(url)}`"
            )
        else:
            _refuse_other(database, revision)
        _open_blobs(database)
    except BaseException:
        database.close()
        raise
    return database


def _refuse_pooler(database: Database) -> None:
    """Refuse a PostgreSQL connection whose transactions do not all run in one session of the server.

    A server names its process when a connection begins; a pooler invents one. Two more connections decide whether the
    pooler gives the session of the first one to others meanwhile. Raises StoreUnusable.
    """
    if database.engine.dialect.name != "postgresql":
        return
    pid = select(func.pg_backend_pid())
    with database.read() as first:
        own = first.execute(pid).scalar_one()
        if own == getattr(first.connection.driver_connection, "info").backend_pid:  # noqa: B009 - psycopg's
            return
        first.rollback()  # in transaction mode, its session is free now
        with database.read() as second, database.read() as third:
            found = [conn.execute(pid).scalar_one() for conn in (second, first, third)]
    if found[1] != own or own in (found[0], found[2]):
        raise StoreUnusable(
            f"the store {without_secrets(database.url)} is behind a pooler in transaction mode, and turnwise holds a "
            "run by a lock of its session: name the server itself, or a pool with `pool_mode = session`"
        )


def check_revision(database: Database) -> None:
    """Check that the schema of an open store is still this program's.

    Raises:
        WrongRevision: another program upgraded the store.
        StoreUnusable: the database does not answer, or its tables are gone.
    """
    revision = _revision(database)
    if revision is None:
        raise StoreUnusable(f"{_place(database)} no longer holds a turnwise store")
    _refuse_other(database, revision)


def _refuse_other(database: Database, revision: str) -> None:
    if revision == migrate.head():
        return
    migrate.refuse_unknown(revision, f"the store {_place(database)}")
    raise WrongRevision(
        f"the store {_place(database)} is at revision {revision}, this turnwise needs {migrate.head()}; "
        f"run `turnwise db upgrade --store {without_secrets(database.url)}`"
    )


def upgrade(url: str) -> None:
    """Upgrade the store at ``url`` to this program's schema, all or nothing; a missing store is made.

    Raises:
        StoreError: the database cannot be opened, or holds tables of another program.
    """
    database = _connect(url, None, create=True)
    try:
        _upgrade(database)
    finally:
        database.close()


def sqlite_file(url: str) -> Path | None:
    """Return the file of the SQLite store at ``url``; None for another database. Raises StoreError."""
    parsed = _parse(url)
    return _sqlite_path(parsed) if parsed.get_backend_name() == "sqlite" else None


def located(url: str, folder: Path) -> str:
    """Return the URL of a store whose relative paths, of an SQLite file and of the blobs, are relative to ``folder``.

    Raises:
        StoreError: it is not the URL of a store.
    """
    parsed = _parse(url)
    if parsed.get_backend_name() != "sqlite":
        return url
    path = folder / _named_path(parsed)
    if "://" not in url:
        return str(path)
    blobs = parsed.query.get("blobs")
    if isinstance(blobs, str) and "://" not in blobs:
        parsed = parsed.update_query_dict({"blobs": str(folder / blobs)})
    return parsed.set(database=str(path)).render_as_string(hide_password=False)


def revisions(url: str) -> tuple[str | None, str]:
    """Return the revision of the store at ``url`` (None: it has no tables) and the one that this program needs.

    Raises:
        StoreError: the database is missing or cannot be opened.
    """
    database = _connect(url, None, create=False)
    try:
        return _revision(database), migrate.head()
    finally:
        database.close()


def _revision(database: Database) -> str | None:
    with database.read() as conn:
        return migrate.revision_of(conn)


def _upgrade(database: Database) -> None:
    """Migrate with foreign keys off, checked at the end: SQLite rebuilds tables, and no transaction can switch them."""
    is_sqlite = database.engine.dialect.name == "sqlite"
    try:
        with database._writing.connect() as conn:
            try:
                if is_sqlite:
                    cursor = conn.connection.cursor()
                    cursor.execute("PRAGMA foreign_keys=OFF")
                with conn.begin():
                    migrate.upgrade_to_head(conn)
                    if is_sqlite and (broken := conn.exec_driver_sql("PRAGMA foreign_key_check").fetchall()):
                        raise StoreError(f"the upgrade would break {len(broken)} references; nothing was changed")
            finally:
                if is_sqlite:
                    conn.invalidate()
    except DBAPIError as error:
        raise to_store_error(error, without_secrets(database.url)) from error


def _open_blobs(database: Database) -> None:
    """Use the folder that the user named, or else the recorded one, once its marker is verified. Raises StoreError."""
    is_sqlite = database.engine.dialect.name == "sqlite"
    with database.read() as conn:
        root = read_blob_root(conn, _sqlite_path(database.engine.url) if is_sqlite else None)
    database.blobs = BlobStore(root.folder(database.blobs.folder), root)


def _connect(given: str, blobs: str | None, create: bool, *, read_only: bool = False) -> Database:
    url = _parse(given)
    folder_or_url = blobs or url.query.get("blobs") or os.environ.get("TURNWISE_BLOBS")
    folder = folder_or_url if isinstance(folder_or_url, str) else None
    if folder is not None and ("://" not in folder or folder.startswith("file://")):
        folder = str(absolute(folder.removeprefix("file://")))
    url = url.difference_update_query(["blobs"])
    if url.get_backend_name() == "postgresql":
        engine = _postgresql(url)
    elif url.get_backend_name() == "sqlite":
        path = _sqlite_path(url)
        if url.host or url.query:
            raise StoreError(
                f"{without_secrets(given)!r} is not the URL of an SQLite store: write three slashes before a relative "
                "path and four before an absolute one, and no parameter but `?blobs=FOLDER`"
            )
        if create:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StoreError(f"the folder of the store cannot be made: {error}; check the path") from error
            try:
                path.touch()  # each connection then opens the file only if it exists
            except OSError as error:
                raise StoreError(f"the store `{path}` cannot be made: {error.strerror}; check the path") from error
        elif not path.exists():
            raise StoreError(
                f"there is no store at {without_secrets(str(path.resolve()))}; a run creates it, or "
                f"`turnwise db upgrade --store {without_secrets(given)}`"
            )
        elif read_only and not path.is_file():
            raise StoreError(f"the store `{path}` is not a file; check the path")  # reading a FIFO has no end
        engine = _sqlite(url.set(database=str(path)), read_only)
    else:
        raise StoreError(f"a store is SQLite or PostgreSQL, not {url.get_backend_name()} ({without_secrets(given)})")
    return Database(given, engine, BlobStore(folder), read_only=read_only)


def _parse(given: str) -> URL:
    if "://" not in given:
        named = "/" in given or given.endswith((".db", ".sqlite"))
        if _OTHER_SYNTAX.match(given) or not named:
            raise StoreError(
                f"{without_secrets(given)!r} names no store; write sqlite:///FILE or postgresql://USER@HOST/NAME, "
                "or a path that ends in .db or .sqlite"
            )
        return URL.create("sqlite", database=given)
    try:
        url = make_url(given)
    except (ArgumentError, ValueError):
        # The cause is dropped: it may quote a part of the URL.
        raise StoreError(
            f"{without_secrets(given)!r} is not a database URL; write sqlite:///FILE or "
            "postgresql://USER@HOST[:PORT]/NAME, and percent-encode `@`, `:` and `/` in a password"
        ) from None
    if url.drivername in ("postgresql", "postgres"):
        url = url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() == "postgresql" and url.drivername != "postgresql+psycopg":
        raise StoreError(
            f"a store cannot be opened by the driver of `{url.drivername}`: write `postgresql://`, for which turnwise "
            "uses psycopg 3"
        )
    return url


def _sqlite_path(url: URL) -> Path:
    return absolute(_named_path(url))


def _named_path(url: URL) -> Path:
    """Return the file that the URL of an SQLite store names; it may be relative."""
    if not url.database or url.database == ":memory:":
        raise StoreError(
            "a store in memory is lost when its process ends: name a file, such as `sqlite:///runs/turnwise.db`"
        )
    path = Path(url.database)
    return path.expanduser() if path.parts[:1] == ("~",) else path


def _place(database: Database) -> str:
    """Return the store's location for a message: the absolute path of an SQLite file, else the URL."""
    sqlite = database.engine.dialect.name == "sqlite"
    return without_secrets(str(_sqlite_path(database.engine.url).resolve()) if sqlite else database.url)


def _postgresql(url: URL) -> Engine:
    # Without an encoding of its own, a connection to a database in SQL_ASCII returns bytes.
    options: dict[str, Any] = {"connect_timeout": 10, "client_encoding": "utf8"}
    if (threshold := url.query.get("prepare_threshold")) is not None:  # psycopg's, which takes no text
        if threshold != "none" and not str(threshold).isdecimal():
            raise StoreError("`prepare_threshold` in the URL of a store is a number of executions, or `none`")
        options["prepare_threshold"] = None if threshold == "none" else int(str(threshold))
        url = url.difference_update_query(["prepare_threshold"])
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import make_conninfo

        make_conninfo(**dict.fromkeys(url.query, ""))  # psycopg has parameters of its own, which take no text
        engine = create_engine(url, json_serializer=dump_json, json_deserializer=load_json, connect_args=options)
    except ModuleNotFoundError as error:
        raise StoreError("PostgreSQL needs its driver: pip install 'turnwise[postgres]'") from error
    except ProgrammingError as error:
        raise StoreError(
            f"the store {without_secrets(url.render_as_string(hide_password=False))} has a parameter that PostgreSQL "
            f"does not know: {str(error).strip()}; correct the parameters"
        ) from error

    @event.listens_for(engine, "connect")
    def prepare(connection: DBAPIConnection, _: Any) -> None:
        """Plan each statement for its values and for the present size of its tables.

        A plan that PostgreSQL keeps is that of the first rows of a young store, when to read a table whole is best; it
        would stay in use while the table grows.
        """
        with closing(connection.cursor()) as cursor:
            cursor.execute("SET plan_cache_mode = force_custom_plan")
        connection.commit()

    @event.listens_for(engine, "checkin")
    def note(_: Any, record: ConnectionPoolEntry) -> None:
        record.info["used_at"] = monotonic()

    @event.listens_for(engine, "checkout")
    def ping(connection: DBAPIConnection, record: ConnectionPoolEntry, _: Any) -> None:
        """Replace a connection that the server has ended meanwhile. A recent one is not tested: that takes a call."""
        if monotonic() - record.info.get("used_at", monotonic()) < PING_AFTER_S:
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            raise DisconnectionError(str(error)) from error

    return engine


def _sqlite(url: URL, read_only: bool) -> Engine:
    # With both modes, a missing file is an error, not a new database.
    address = f"file:{quote(str(_sqlite_path(url)))}?mode={'ro' if read_only else 'rw'}"
    pragmas = READ_PRAGMAS if read_only else (*WRITE_PRAGMAS, *READ_PRAGMAS)

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(address, uri=True, timeout=BUSY_TIMEOUT_S, check_same_thread=False)

    engine = create_engine(url, creator=connect, json_serializer=dump_json, json_deserializer=load_json)

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _: Any) -> None:
        connection.isolation_level = None
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writing = connection.get_execution_options().get(_WRITE)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    return engine
