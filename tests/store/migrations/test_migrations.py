"""The migrations make exactly the tables of ``schema``, all or nothing, and a store at another revision is refused."""

import re
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, inspect, text
from turnwise.store import migrate
from turnwise.store.database import Database, open_database, revisions, upgrade
from turnwise.store.errors import StoreError, StoreUnavailable, WrongRevision
from turnwise.store.schema import metadata
from turnwise.tests.store.making import create_run
from turnwise.tests.store.migrations.revisions import NEXT, add_revision
from turnwise.tests.store.postgres import Server


def ddl(conn: Connection) -> dict[str, list[str]]:
    """Return the definition of every table and index of the database."""
    if conn.dialect.name == "sqlite":
        made = conn.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        return {name: _normal(sql) for name, sql in made if name != "alembic_version"}
    indexes = "SELECT indexname, indexdef FROM pg_indexes"
    rules = "SELECT conrelid::regclass || conname, pg_get_constraintdef(oid) FROM pg_constraint"
    columns = "SELECT table_name || '.' || column_name, concat_ws(' ', data_type, is_nullable, column_default)"
    where = " FROM information_schema.columns WHERE table_schema = 'public'"
    found = {row[0]: row[1] for query in (indexes, rules, columns + where) for row in conn.execute(text(query))}
    return {name: [sql] for name, sql in found.items() if name and "alembic_version" not in name}


def _normal(sql: str) -> list[str]:
    """Return the clauses of a definition in a fixed order and notation: SQLite keeps the text of each statement."""
    sql = sql.replace('"', "").replace("('')", "''")
    return sorted(clause.strip() for clause in re.split(r",\s+(?![^(]*\))|\n", sql) if clause.strip())


def test_the_migrations_make_the_tables_of_the_schema(database: Database, server: Server, tmp_path: Path) -> None:
    with database.read() as conn:
        context = MigrationContext.configure(conn, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
        migrated = ddl(conn)
    fresh = f"sqlite:///{tmp_path}/plain.db" if "sqlite" in database.url else server.url(server.create())
    engine = create_engine(fresh)
    with engine.begin() as conn:
        metadata.create_all(conn)
        assert ddl(conn) == migrated
    engine.dispose()


def test_a_populated_store_can_be_downgraded(database: Database) -> None:
    from alembic import command

    create_run(database)
    with database.engine.begin() as conn:
        command.downgrade(migrate.configuration(conn), "base")
    with database.read() as conn:
        assert inspect(conn).get_table_names() == ["alembic_version"]


def test_alembic_finds_the_same_revisions_in_the_same_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        chain = [one.revision for one in ScriptDirectory.from_config(migrate.configuration()).walk_revisions()]
        assert migrate.revisions(migrate.MIGRATIONS) == tuple(reversed(chain))
        if NEXT not in chain:
            add_revision(tmp_path, monkeypatch)
    assert chain[0] == NEXT == migrate.head()


def test_to_open_a_store_imports_no_alembic(url: str) -> None:
    code = "import sys; from turnwise.store.database import open_database as o; o(sys.argv[1]); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, url], capture_output=True, text=True, timeout=60, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "sqlalchemy" in loaded
    assert "alembic" not in loaded


def test_a_store_at_several_revisions_is_refused(url: str) -> None:
    database = open_database(url)
    with database.transaction() as tx:
        tx.conn.execute(text("INSERT INTO alembic_version VALUES ('0000')"))
    database.close()
    for work in (open_database, upgrade):
        with pytest.raises(
            StoreError, match="`alembic_version` holds the revisions '0000', '0006', and a store has one"
        ):
            work(url)


def test_a_missing_store_is_created_only_on_demand(empty_url: str) -> None:
    with pytest.raises(StoreError, match="turnwise db upgrade --store"):
        open_database(empty_url)
    open_database(empty_url, create=True).close()
    assert revisions(empty_url) == (migrate.head(), migrate.head())
    open_database(empty_url).close()
    upgrade(empty_url)


@pytest.mark.parametrize(
    ("revision", "remedy"),
    [
        ("0001", r"which no upgrade leads from, .* needs 0006: name a new store by `--store`, or read this one with"),
        ("9999", "which this version of turnwise does not contain: install a newer turnwise"),
    ],
)
def test_a_store_at_an_unknown_revision_is_refused(url: str, revision: str, remedy: str) -> None:
    database = open_database(url)
    with database.transaction() as tx:
        tx.conn.execute(text("UPDATE alembic_version SET version_num = :revision"), {"revision": revision})
    database.close()
    unknown = f"at revision {revision}, {remedy}"
    for create in (False, True):
        with pytest.raises(WrongRevision, match=unknown):
            open_database(url, create=create)
    with pytest.raises(WrongRevision, match=unknown):
        upgrade(url)


def test_a_populated_store_at_an_older_revision_is_upgraded_on_demand(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = open_database(url)
    create_run(database, "before")
    database.close()
    older = migrate.head()
    add_revision(tmp_path, monkeypatch)
    for create in (False, True):
        with pytest.raises(WrongRevision, match=f"at revision {older}.*turnwise db upgrade --store"):
            open_database(url, create=create)
    upgrade(url)
    assert revisions(url) == (NEXT, NEXT)
    database = open_database(url)
    with database.read() as conn:
        assert conn.execute(text("SELECT id, added FROM run")).all() == [("before", "")]
    database.close()


def test_foreign_tables_are_unchanged(empty_url: str, tmp_path: Path) -> None:
    engine = create_engine(empty_url.partition("&blobs")[0])
    with engine.begin() as conn:
        conn.execute(text("CREATE TABLE theirs (id INTEGER)"))
    engine.dispose()
    with pytest.raises(StoreError, match="give turnwise an empty database"):
        open_database(empty_url, create=True)


def test_a_migration_killed_half_way_is_rolled_back(empty_url: str) -> None:
    """The process kills itself in the middle of the first migration."""
    program = """
import os, signal, sys
from sqlalchemy import event
from sqlalchemy.engine import Engine
from turnwise.store.database import upgrade
made = []
@event.listens_for(Engine, "before_cursor_execute")
def count(conn, cursor, statement, *rest):
    made.append(statement)
    if "CREATE TABLE lease" in statement:
        os.kill(os.getpid(), signal.SIGKILL)
upgrade(sys.argv[1])
"""
    done = subprocess.run([sys.executable, "-c", program, empty_url], timeout=120, check=False)
    assert done.returncode == -9
    assert revisions(empty_url)[0] is None
    database = open_database(empty_url, create=True)
    create_run(database)
    database.close()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sqlite://", "name a file"),
        ("mysql://host/name", "SQLite or PostgreSQL, not mysql"),
        ("://", "not a database URL"),
        ("postgresql+foo://h/x", "by the driver of `postgresql\\+foo`: write `postgresql://`"),
        ("foo", "'foo' names no store; write sqlite:///FILE"),
        ("foo/bar", f"there is no store at {Path.cwd()}/foo/bar;"),
        ("foo.sqlite", f"there is no store at {Path.cwd()}/foo.sqlite;"),
        ("sqlite:////nowhere/at/all.db", "there is no store at /nowhere/at/all.db"),
        ("/nowhere/password=secret/all.db", r"there is no store at /nowhere/password=\*\*\*"),
    ],
)
def test_an_invalid_url_is_rejected(url: str, message: str) -> None:
    with pytest.raises(StoreError, match=message):
        open_database(url)


def test_a_file_that_is_not_a_database_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "turnwise.db").write_text("hello " * 1000)
    with pytest.raises(StoreError, match="cannot be used: file is not a database"):
        open_database(str(tmp_path / "turnwise.db"))


def test_a_damaged_file_and_a_folder_that_cannot_be_made_are_explained(tmp_path: Path) -> None:
    open_database(f"sqlite:///{tmp_path}/whole.db", create=True).close()
    data = (tmp_path / "whole.db").read_bytes()
    (tmp_path / "cut.db").write_bytes(data[: len(data) // 2 // 4096 * 4096])
    with pytest.raises(StoreError, match=r"is damaged: .* restore a backup"):
        open_database(f"sqlite:///{tmp_path}/cut.db")
    with pytest.raises(StoreError, match="the folder of the store cannot be made"):
        open_database(f"sqlite:///{tmp_path}/cut.db/turnwise.db", create=True)


@pytest.mark.parametrize("url", ["postgresql://me:secret@/x?host={}", "postgresql://me@/x?password=secret&host={}"])
def test_the_error_of_an_unreachable_server_hides_its_password(tmp_path: Path, url: str) -> None:
    with pytest.raises(StoreUnavailable) as raised:
        open_database(url.format(tmp_path))
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("use", [open_database, upgrade, revisions])
def test_an_unknown_parameter_of_a_server_is_named(use: Callable[[str], object]) -> None:
    with pytest.raises(StoreError, match='invalid connection option "pass"; correct the parameters') as raised:
        use("postgresql://127.0.0.1:1/x?user=me&pass=secret")
    assert "pass=***" in str(raised.value)


def test_an_upgrade_of_an_unreachable_server_is_an_error_of_the_store() -> None:
    with pytest.raises(StoreUnavailable):
        upgrade("postgresql://127.0.0.1:1/x")


@pytest.mark.parametrize("url", ["me:secret@host", "postgresql://me:secret@host:port/x", "a b://me:secret@host/x"])
def test_the_error_of_an_invalid_url_hides_its_password(url: str) -> None:
    with pytest.raises(StoreError, match=r"me:\*\*\*@host.*write sqlite:///FILE or postgresql://USER@HOST") as raised:
        open_database(url)
    assert "secret" not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize(
    "given",
    [
        "host=h user=u password=secret dbname=d",
        "host=/run/postgresql user=u password=secret",
        "postgresql:/u:secret@h/db",
        "sqlite:/turnwise.db?token=secret",
    ],
)
def test_another_syntax_than_a_url_or_path_is_rejected(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match="names no store; write sqlite:///FILE") as raised:
        open_database(given, create=True)
    assert "=secret" not in str(raised.value)
    assert ":secret" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []
