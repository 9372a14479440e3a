"""A store that is moved, deleted, replaced or dropped while it is open is named; nothing is made in its place."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine
from turnwise.store.content.blobs import PNG, NewBlob
from turnwise.store.database import Database, open_database, upgrade
from turnwise.store.errors import StoreError, StoreGone
from turnwise.store.operations import OPERATIONS
from turnwise.store.queries import list_runs
from turnwise.store.writing.commit_queue import CommitQueue
from turnwise.tests.store.making import call, create_run
from turnwise.tests.store.postgres import Server

LARGE = os.urandom(40_000)


def moved(file: Path) -> None:
    file.rename(file.with_name("elsewhere.db"))


def deleted(file: Path) -> None:
    for one in file.parent.glob(f"{file.name}*"):
        one.unlink()


def replaced_by_a_copy(file: Path) -> None:
    copy = file.with_name("copy.db")
    shutil.copy(file, copy)
    copy.replace(file)


def replaced_by_an_empty_file(file: Path) -> None:
    file.unlink()
    file.touch()


def folder_moved(file: Path) -> None:
    file.parent.rename(file.parent.with_name("elsewhere"))


CHANGES = (moved, deleted, replaced_by_a_copy, replaced_by_an_empty_file, folder_moved)


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("reopens", [False, True], ids=["open", "reopened"])
def test_an_sqlite_store_that_is_gone_is_named(tmp_path: Path, change: Callable[[Path], None], reopens: bool) -> None:
    file = tmp_path / "stores" / "a #%?.db"
    file.parent.mkdir()
    url = f"sqlite:///{str(file).replace('%', '%25').replace('?', '%3F')}"
    upgrade(url)
    with closing(open_database(url)) as database:
        create_run(database)
        change(file)
        if reopens:
            database.close()  # the next use opens a new connection
        before = files(tmp_path)
        for use in (lambda: create_run(database, "s"), lambda: runs(database)):
            with pytest.raises(StoreGone, match=r"was moved, deleted or unmounted|was replaced") as error:
                use()
            assert f"`{file}`" in str(error.value)
        assert files(tmp_path) == before


def runs(database: Database) -> object:
    with database.read() as conn:
        return list_runs(conn)


def test_a_file_that_vanishes_between_the_check_and_the_connection_is_not_made_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/turnwise.db"
    upgrade(url)
    with closing(open_database(url)) as database:
        database.close()
        database.place = None
        deleted(tmp_path / "turnwise.db")
        with pytest.raises(StoreError, match="cannot be used"):
            create_run(database)
    assert files(tmp_path) == set()


def test_a_store_that_comes_back_is_used_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/turnwise.db"
    upgrade(url)
    with closing(open_database(url)) as database:
        create_run(database)
        moved(tmp_path / "turnwise.db")
        with pytest.raises(StoreGone):
            runs(database)
        (tmp_path / "elsewhere.db").rename(tmp_path / "turnwise.db")
        create_run(database, "s")


def test_the_writer_answers_with_the_reason_and_does_not_wait(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/turnwise.db"
    upgrade(url)
    with closing(open_database(url)) as database:
        writer = CommitQueue(database)
        try:
            moved(tmp_path / "turnwise.db")
            write = OPERATIONS["request_stop"].bind(run="r")
            with pytest.raises(StoreGone):
                writer.submit(write).result(20)
        finally:
            writer.close()


@pytest.mark.parametrize("change", ["moved", "deleted", "emptied"])
def test_a_blob_folder_that_is_gone_is_named(tmp_path: Path, change: str) -> None:
    url = f"sqlite:///{tmp_path}/turnwise.db"
    upgrade(url)
    with closing(open_database(url)) as database:
        first = NewBlob.of(LARGE, PNG)
        with database.transaction() as tx:
            tx.blobs.insert(tx.conn, {first.hash: first}, tx.now)
        folder = tmp_path / "turnwise.blobs"
        folder.rename(tmp_path / "elsewhere")
        if change == "deleted":
            shutil.rmtree(tmp_path / "elsewhere")
        if change == "emptied":
            folder.mkdir()
        before = files(tmp_path)
        second = NewBlob.of(LARGE[::-1], PNG)
        with pytest.raises(StoreGone, match="the blob folder `"):
            database.blobs.stage(second)
        with database.read() as conn, pytest.raises(StoreGone, match="the blob folder `"):
            database.blobs.get(conn, first.hash)
        assert files(tmp_path) == before


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


def test_a_database_in_another_encoding_is_refused_at_its_creation(server: Server) -> None:
    latin = "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
    execute(server.url("postgres"), latin)
    reason = r"`latin` is encoded in LATIN1.*`createdb --encoding UTF8 --template template0"
    for make in (upgrade, lambda url: open_database(url, create=True)):
        with pytest.raises(StoreError, match=reason):
            make(server.url("latin"))


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
