"""The revisions of the schema: which one a database has, which one this program needs, and the upgrade.

A migration runs in one transaction on both databases, under a lock: a killed upgrade changes nothing.

Only an upgrade imports Alembic, which takes a third of the time to open a store; every command and worker opens one.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, column, inspect, select, table, text

from .content.blob_root import make_settings
from .errors import StoreError, WrongRevision
from .schema import metadata

if TYPE_CHECKING:
    from alembic.config import Config

MIGRATIONS = Path(__file__).parent.parent / "migrations"
_ADVISORY_LOCK = 0x7475726E
_VERSION = table("alembic_version", column("version_num"))
"""Alembic's table."""


def configuration(conn: Connection | None = None) -> Config:
    """Return Alembic's configuration for the migrations of the installed package, on ``conn`` if one is given."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["metadata"] = metadata
    config.attributes["connection"] = conn
    return config


def head() -> str:
    """Return the revision this program needs."""
    return revisions(MIGRATIONS)[-1]


@cache
def revisions(folder: Path) -> tuple[str, ...]:
    """Return the revisions of the migrations in ``folder``, in their order: the numbers that begin the names of files.

    Raises:
        StoreError: there are none.
    """
    found = sorted(file.name.partition("_")[0] for file in (folder / "versions").glob("[0-9]*_*.py"))
    if not found:
        raise StoreError(f"no migrations in `{folder}`: the installation is incomplete, so install turnwise again")
    return tuple(found)


def revision_of(conn: Connection) -> str | None:
    """Return the revision of the database; None if it holds none of turnwise's tables.

    Raises:
        StoreError: it is at several revisions, as no program leaves a store.
    """
    if not inspect(conn).has_table(_VERSION.name):
        return None
    found = conn.execute(select(_VERSION.c.version_num)).scalars().all()
    if len(found) > 1:
        several = ", ".join(map(repr, sorted(found)))
        raise StoreError(f"`{_VERSION.name}` holds the revisions {several}, and a store has one: restore a backup")
    return found[0] if found else None


def is_empty(conn: Connection) -> bool:
    """Return whether the database has no tables."""
    return not inspect(conn).get_table_names()


def refuse_unknown(revision: str, what: str) -> None:
    """Check that this program has the migration to ``revision``.

    Raises:
        WrongRevision: a newer program wrote ``what``, or one from before the first revision.
    """
    known = revisions(MIGRATIONS)
    if revision < known[0]:
        raise WrongRevision(
            f"{what} is at revision {revision}, which no upgrade leads from, and this turnwise needs {known[-1]}: name "
            f"a new store by `--store`, or read this one with the turnwise that wrote it"
        )
    if revision not in known:
        raise WrongRevision(
            f"{what} is at revision {revision}, which this version of turnwise does not contain: "
            "install a newer turnwise"
        )


def _refuse_encoding(conn: Connection) -> None:
    """Check that a PostgreSQL database is in UTF-8: another encoding cannot hold every text of a policy.

    Raises:
        StoreError: it has another encoding.
    """
    if conn.dialect.name != "postgresql":
        return
    encoding = conn.execute(text("SHOW server_encoding")).scalar_one()
    if encoding != "UTF8":
        name = conn.execute(text("SELECT current_database()")).scalar_one()
        raise StoreError(
            f"the database `{name}` is encoded in {encoding}, and a store needs UTF-8: make it again by "
            f"`createdb --encoding UTF8 --template template0 {name}`"
        )


def upgrade_to_head(conn: Connection) -> None:
    """Run the missing migrations on ``conn``, which is in a transaction, and give a new store its id.

    Raises:
        StoreError: the database holds tables of another program, or is not in UTF-8.
        WrongRevision: a newer program wrote the database, or one from before the first revision.
    """
    if conn.dialect.name == "postgresql":
        conn.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _ADVISORY_LOCK})
    revision = revision_of(conn)
    if revision is None:
        _refuse_encoding(conn)
    if revision is None and not is_empty(conn):
        raise StoreError("the database holds tables of another program: give turnwise an empty database")
    if revision is not None:
        refuse_unknown(revision, "the database")
    from alembic import command

    command.upgrade(configuration(conn), "head")
    make_settings(conn)
