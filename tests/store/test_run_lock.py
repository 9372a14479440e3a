"""The liveness of a run's driver, as seen from its host, from another host and from a server."""

import fcntl
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest
from sqlalchemy import func, select
from turnwise.store import run_lock
from turnwise.store.database import Database, open_database
from turnwise.store.errors import RunHeld, StoreError, StoreUnavailable, StoreUnusable
from turnwise.store.operations import OPERATIONS
from turnwise.store.project import run_folder
from turnwise.store.run_lock import LOCK, Driver, _key, driver_of, hold_evaluation, hold_run
from turnwise.store.writing.commit_queue import CommitQueue
from turnwise.tests.store.making import sqlite_store
from turnwise.tests.store.postgres import Server

DRIVER = """
import sys
from turnwise.store.database import open_database
from turnwise.store.run_lock import hold_run
with hold_run(open_database(sys.argv[1]), "r"):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def driver(url: str, folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """Start a process that holds the run ``r``."""
    child = subprocess.Popen(
        [sys.executable, "-c", DRIVER, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        yield child
    finally:
        child.kill()
        child.communicate(timeout=10)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs of a PostgreSQL store keep their files under the working folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Database]:
    opened = open_database(sqlite_store(tmp_path))
    yield opened
    opened.close()


def test_one_process_at_a_time_holds_a_run(database: Database, tmp_path: Path) -> None:
    with (
        driver(database.url, tmp_path) as child,
        pytest.raises(RunHeld, match=f"process {child.pid} on host"),
        hold_run(database, "r"),
    ):
        pass
    with driver(database.url, tmp_path):
        shutil.rmtree(run_folder(database, "r"))
        if database.engine.dialect.name == "postgresql":
            with pytest.raises(RunHeld, match="by another process on this store"), hold_run(database, "r"):
                pass


def test_a_live_driver_and_its_end_are_detected(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with driver(database.url, tmp_path) as child:
        assert driver_of(database, "r") is Driver.ALIVE
        assert driver_of(database, "another") is not Driver.ALIVE
        child.communicate("", timeout=60)
        assert driver_of(database, "r") is Driver.GONE
    with hold_run(database, "r"), hold_evaluation(database, "e"):
        assert driver_of(database, "r") is driver_of(database, "e") is Driver.ALIVE
    assert driver_of(database, "r") is Driver.GONE


def test_a_driver_is_alive_after_its_server_dropped_its_connections(server: Server, tmp_path: Path) -> None:
    name = server.create()
    opened = open_database(server.url(name), create=True, blobs=str(tmp_path))
    with hold_run(opened, "r"):
        server.drop_connections(name)
        opened.engine.dispose()
        assert driver_of(opened, "r") is Driver.ALIVE
    assert driver_of(opened, "r") is Driver.GONE
    opened.close()


def test_a_killed_driver_is_gone(sqlite: Database, tmp_path: Path) -> None:
    with driver(sqlite.url, tmp_path) as child:
        child.kill()
        child.wait(timeout=10)
        assert driver_of(sqlite, "r") is Driver.GONE


def test_a_missing_file_lock_proves_nothing(sqlite: Database) -> None:
    assert driver_of(sqlite, "r") is Driver.UNKNOWN


def test_for_another_host_only_a_held_file_lock_counts(sqlite: Database) -> None:
    lock = run_folder(sqlite, "r") / LOCK
    with hold_run(sqlite, "r"):
        process, _, boot = lock.read_text().split("\n")
        lock.write_text(f"{process}\nelsewhere\nanother boot")
        assert driver_of(sqlite, "r") is Driver.ALIVE
    assert driver_of(sqlite, "r") is Driver.UNKNOWN
    lock.write_text(f"{process}\ncontainer\n{boot}")
    assert driver_of(sqlite, "r") is (Driver.GONE if boot else Driver.UNKNOWN), "a container of this host"
    lock.write_text("")
    assert driver_of(sqlite, "r") is Driver.UNKNOWN


def test_a_driver_starts_while_a_reader_shares_the_lock(sqlite: Database) -> None:
    seen = []

    def drive() -> None:
        with hold_run(sqlite, "r"):
            seen.append(driver_of(sqlite, "r"))

    drive()
    with (run_folder(sqlite, "r") / LOCK).open() as reader:
        fcntl.flock(reader, fcntl.LOCK_SH)
        starting = Thread(target=drive)
        starting.start()
    starting.join(timeout=10)
    assert seen == [Driver.ALIVE, Driver.ALIVE]


def test_an_evaluation_leaves_no_folder(database: Database, tmp_path: Path) -> None:
    with hold_evaluation(database, "e"):
        assert driver_of(database, "e") is Driver.ALIVE
    assert not run_folder(database, "e").exists()


def test_a_lock_of_another_database_of_the_server_does_not_count(server: Server, tmp_path: Path) -> None:
    urls = [server.url(server.create()) for _ in range(2)]
    first, second = (open_database(url, create=True, blobs=str(tmp_path)) for url in urls)
    with hold_evaluation(first, "r"):
        assert driver_of(second, "r") is Driver.GONE
    first.close()
    second.close()


def test_a_lock_whose_connection_was_lost_is_taken_again(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnwise.store.run_lock.CHECK_INTERVAL_S", 0.05)
    name = server.create()
    opened = open_database(server.url(name), create=True, blobs=str(tmp_path))
    errors: list[str] = []
    with hold_evaluation(opened, "r", errors.append):
        for _ in range(2):
            server.drop_connections(name)
            until(lambda: driver_of(opened, "r") is Driver.ALIVE)
            with pytest.raises(RunHeld), hold_evaluation(opened, "r"):
                pass
    assert driver_of(opened, "r") is Driver.GONE
    assert errors == []
    opened.close()


def test_a_lock_that_another_driver_took_meanwhile_ends_the_run(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnwise.store.run_lock.CHECK_INTERVAL_S", 0.05)
    opened = open_database(server.url(server.create()), create=True, blobs=str(tmp_path))
    errors: list[str] = []
    with opened.engine.connect() as other, hold_evaluation(opened, "r", errors.append):
        waiting = Thread(target=lambda: other.execute(select(func.pg_advisory_lock(_key("r")))))
        waiting.start()  # the server grants it the lock in the moment in which the driver loses it
        with opened.transaction() as tx:
            until(lambda: tx.conn.exec_driver_sql("SELECT count(*) FROM pg_locks WHERE NOT granted").scalar() == 1)
            tx.conn.exec_driver_sql("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE objsubid = 1 AND granted")
        until(lambda: bool(errors))
        waiting.join()
        assert driver_of(opened, "r") is Driver.ALIVE
    assert len(errors) == 1
    assert "another process drives run `r` now" in errors[0]
    opened.close()


def until(condition: Callable[[], bool]) -> None:
    """Wait until ``condition`` is true while a server drops connections."""
    deadline = time.monotonic() + 20
    while True:
        try:
            if condition():
                return
        except StoreUnavailable:
            pass
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("name", ["../x", "/etc", "..", ".", "a/../../b"])
def test_no_name_of_a_run_leads_out_of_the_folder_of_runs(tmp_path: Path, name: str) -> None:
    database = open_database(sqlite_store(tmp_path))
    folder = run_folder(database, name)
    database.close()
    assert folder.resolve().parent == tmp_path.resolve()


def test_an_outage_of_the_server_is_reported_once_and_waited_for(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_lock, "CHECK_INTERVAL_S", 0.05)
    name, said = server.create(), list[str]()
    opened = open_database(server.url(name), create=True, blobs=str(tmp_path))
    opened.wait_for_outages(60)
    writer = CommitQueue(opened)
    try:
        with hold_run(opened, "r", say=said.append):
            with server.away():
                create = OPERATIONS["create_run"].bind(
                    run="r", config={}, config_hash="", kind="train", code_version=""
                )
                writing = writer.submit(create)
                until(lambda: bool(said))
                time.sleep(0.3)
            assert writing.result(30) == 1
            until(lambda: len(said) > 1)
            assert driver_of(opened, "r") is Driver.ALIVE
    finally:
        writer.close()
        opened.close()
    away, back = said
    assert "the database is away" in away
    assert "waiting for it, 60 s at most" in away
    assert "the database is back after" in back


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_a_pooler_is_refused_unless_it_gives_each_connection_a_session(
    server: Server, tmp_path: Path, mode: str
) -> None:
    name = server.create()
    direct = server.url(name)
    open_database(f"{direct}&prepare_threshold=0", create=True, blobs=str(tmp_path)).close()
    with server.pooled(mode) as host:
        url = f"{direct.partition('host=')[0]}host={host}"
        if mode == "transaction":
            with pytest.raises(StoreUnusable, match="behind a pooler in transaction mode"):
                open_database(url)
            return
        opened = open_database(url)
        with hold_run(opened, "r"):
            pass
        opened.close()


@pytest.mark.parametrize("parameter", ["prepare_threshold=x", "autocommit=true", "row_factory=1"])
def test_a_parameter_of_a_url_that_is_not_the_servers_is_refused(parameter: str) -> None:
    with pytest.raises(StoreError, match=parameter.partition("=")[0]):
        open_database(f"postgresql://u@127.0.0.1:1/x?{parameter}")
