"""A database that is dropped or missing is named and not made again; a store stays at the place that its URL names."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine
from turnwise.store.database import Database, open_database, upgrade
from turnwise.store.errors import StoreError, StoreGone
from turnwise.store.queries import list_runs
from turnwise.tests.store.making import call, create_run
from turnwise.tests.store.postgres import Server


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def runs(database: Database) -> object:
    with database.read() as conn:
        return list_runs(conn)


def test_a_file_that_is_missing_at_a_connection_is_not_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "a #%?"
    url = f"sqlite:///{tmp_path}/a #%25%3F/turnwise.db"
    upgrade(url)
    with closing(open_database(url)) as database:
        database.close()
        for file in folder.iterdir():
            file.unlink()
        with pytest.raises(StoreError, match="cannot be used"):
            create_run(database)
    assert files(tmp_path) == {folder.name}


def execute(url: str, statement: str) -> None:
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
        conn.exec_driver_sql(statement)
    engine.dispose()


@pytest.mark.parametrize("drop", ["DROP DATABASE {name} WITH (FORCE)", "DROP SCHEMA public CASCADE"])
def test_a_dropped_database_is_named(server: Server, template: str, drop: str) -> None:
    name = server.create(template)
    with closing(open_database(server.url(name))) as database:
        create_run(database)
        execute(server.url(name if "SCHEMA" in drop else "postgres"), drop.format(name=f'"{name}"'))
        for _ in range(3):
            try:
                runs(database)
            except StoreGone as error:
                assert "is gone" in str(error)  # noqa: PT017 - a first use may find a connection that the server ended
                return
            except StoreError:
                continue
    pytest.fail("the store answers")


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_in_another_encoding_is_refused_at_its_creation(server: Server, encoding: str) -> None:
    made = f"CREATE DATABASE {encoding} ENCODING '{encoding}' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
    execute(server.url("postgres"), made)
    name = encoding.lower()
    reason = rf"`{name}` is encoded in {encoding}.*`createdb --encoding UTF8 --template template0"
    for make in (upgrade, lambda url: open_database(url, create=True)):
        with pytest.raises(StoreError, match=reason):
            make(server.url(name))


@pytest.mark.parametrize("driver", ["psycopg2", "asyncpg", "pg8000", "none"])
def test_another_driver_of_postgresql_is_named(driver: str) -> None:
    with pytest.raises(StoreError, match=rf"the driver of `postgresql\+{driver}`: write `postgresql://`"):
        open_database(f"postgresql+{driver}://u@h/n")


def test_a_tilde_is_the_home_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    upgrade("sqlite:///~/stores/a.db")
    with closing(open_database("~/stores/a.db")) as database:
        create_run(database)
    assert (tmp_path / "home" / "stores" / "a.db").exists()
    assert not (tmp_path / "~").exists()


def test_a_store_stays_where_it_was_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path is resolved when the store is opened, not at each use."""
    monkeypatch.chdir(tmp_path)
    with closing(open_database("sqlite:///runs/turnwise.db", create=True)) as database:
        (tmp_path / "other").mkdir()
        os.chdir(tmp_path / "other")
        database.close()
        create_run(database)
        call(database, "request_stop", run="r")
    assert files(tmp_path / "other") == set()
    with closing(sqlite3.connect(tmp_path / "runs" / "turnwise.db")) as conn:
        assert conn.execute("SELECT stop_requested FROM run").fetchall() == [(1,)]
