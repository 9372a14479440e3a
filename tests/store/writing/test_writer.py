"""The writer reports only committed writes, and a failed operation affects no other."""

import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, func, select
from turnwise.records import Status
from turnwise.store import operations
from turnwise.store.content.blobs import INLINE_BYTES, digest
from turnwise.store.content.rows import rows_of
from turnwise.store.database import Database, open_database
from turnwise.store.errors import (
    Fenced,
    NotFound,
    StoreConflict,
    StoreError,
    StoreFull,
    StoreGone,
    StoreUnavailable,
    StoreUnusable,
)
from turnwise.store.queries import find_run, load_trajectory
from turnwise.store.schema import step
from turnwise.store.writing.commit_queue import CommitQueue
from turnwise.tests.store.making import create_run, group, items, play_group, records, trajectory, turn
from turnwise.tests.store.postgres import Server

LEVEL = "PRAGMA synchronous"


def count_steps(database: Database) -> int:
    with database.read() as conn:
        return int(conn.execute(select(func.count()).select_from(step)).scalar_one())


def begin(database: Database, writer: CommitQueue, members: int) -> None:
    create_run(database)
    writer.commit(operations.open_group.bind(group=group(size=members)))
    for member in range(members):
        writer.commit(operations.start_trajectory.bind(trajectory=trajectory(f"t{member}", member=member)))


def test_many_writes_are_one_commit(database: Database) -> None:
    commits: list[Any] = []
    writer = CommitQueue(database, window_ms=200)
    begin(database, writer, 4)
    event.listen(database.engine, "commit", commits.append)
    futures = [writer.submit(operations.append.bind(trajectory=f"t{member}", **turn(0))) for member in range(4)]
    futures += [writer.submit(operations.append.bind(trajectory=f"t{member}", **turn(1))) for member in range(4)]
    for future in futures:
        future.result(10)
    assert len(commits) == 1
    assert count_steps(database) == 8
    writer.close()


def test_writes_of_one_trajectory_keep_their_order(database: Database) -> None:
    writer = CommitQueue(database, window_ms=100)
    create_run(database)
    futures: list[Future[Any]] = [writer.submit(operations.open_group.bind(group=group(size=3)))]
    for member in range(3):
        name = f"t{member}"
        futures.append(writer.submit(operations.start_trajectory.bind(trajectory=trajectory(name, member=member))))
        futures += [writer.submit(operations.append.bind(trajectory=name, **turn(index))) for index in range(3)]
        futures.append(writer.submit(operations.finish_trajectory.bind(trajectory=name, status=Status.COMPLETED)))
    for future in futures:
        future.result(10)
    writer.close()
    assert [len(load_trajectory(database, f"t{member}").steps) for member in range(3)] == [3, 3, 3]


def test_a_bad_write_fails_alone(database: Database) -> None:
    writer = CommitQueue(database, window_ms=100)
    begin(database, writer, 3)
    good = [writer.submit(operations.append.bind(trajectory=f"t{member}", **turn(0))) for member in range(2)]
    missing = writer.submit(operations.append.bind(trajectory="nobody", **turn(0)))
    wrong = writer.submit(
        operations.create_run.bind(run="r", config={}, config_hash="x", kind="train", code_version="")
    )
    late = writer.submit(operations.append.bind(trajectory="t2", **turn(0), writer="another"))
    good.append(writer.submit(operations.append.bind(trajectory="t2", **turn(0))))
    for future in good:
        future.result(10)
    with pytest.raises(NotFound):
        missing.result(10)
    with pytest.raises(StoreConflict):
        wrong.result(10)
    with pytest.raises(Fenced, match="another process writes trajectory t2"):
        late.result(10)
    assert count_steps(database) == 3
    writer.close()


def test_a_call_is_answered_as_a_whole_in_the_order_of_its_writes(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnwise.store.writing.commit_queue.MAX_BATCH", 2)
    create_run(database)
    writer = CommitQueue(database, window_ms=0)
    opened = [operations.open_group.bind(group=group(name, run=run)) for name, run in ("ar", "b?", "cr")]
    late = operations.request_stop.bind(run="r").within(-1.0)
    answers = writer.submit_all([*(write.within(60.0) for write in opened), late]).result(10)
    assert answers[::2] == [None, None]
    assert [type(one) for one in answers[1::2]] == [NotFound, StoreUnavailable]
    with database.read() as conn:
        assert not find_run(conn, "r").stop_requested
    writer.close()


def test_a_cancelled_call_is_not_begun(impatient: Database) -> None:
    commits: list[Any] = []
    event.listen(impatient.engine, "commit", commits.append)
    writer = CommitQueue(impatient, window_ms=0)
    with open_database(impatient.url).transaction():
        first = writer.submit(operations.add_version.bind(run="r", update=0, parent=None))
        while writer.pending:
            time.sleep(0.001)
        call = writer.submit_all([operations.request_stop.bind(run="r").within(60.0)] * 2)
        assert call.cancel()
    first.result(10)
    writer.close()
    assert len(commits) == 1
    with impatient.read() as conn:
        assert find_run(conn, "r").stop_requested is False


def test_images_are_stored_with_the_step_that_shows_them(database: Database, writer: CommitQueue) -> None:
    from dataclasses import replace

    begin(database, writer, 1)
    pictures = {digest(data): data for data in (b"small", b"large" * INLINE_BYTES)}
    [played], [seen, answer] = records(0)
    steps, messages = [replace(played, images=tuple(pictures))], [replace(seen, images=tuple(pictures)), answer]
    writer.commit(operations.append.bind(trajectory="t0", rows=rows_of(steps, messages, pictures)))
    stored = load_trajectory(database, "t0")
    assert stored.steps[0].images == stored.messages[0].images == tuple(pictures)
    with database.read() as conn:
        assert database.blobs.get_many(conn, pictures) == pictures


def test_a_closed_writer_has_committed_its_queue_and_rejects_writes(database: Database) -> None:
    writer = CommitQueue(database, window_ms=1000)
    begun = time.monotonic()
    create_run(database)
    future = writer.submit(operations.request_stop.bind(run="r"))
    writer.close()
    assert future.done()
    assert time.monotonic() - begun < 5
    with database.read() as conn:
        assert find_run(conn, "r").stop_requested is True
    with pytest.raises(StoreError, match="closed"):
        writer.submit(operations.request_stop.bind(run="r"))


def test_a_locked_database_is_waited_for(tmp_path: Any) -> None:
    database = open_database(f"sqlite:///{tmp_path}/turnwise.db", create=True)
    create_run(database)
    other = open_database(database.url)
    writer = CommitQueue(database)
    with other.transaction():
        future = writer.submit(operations.request_stop.bind(run="r"))
        with pytest.raises(TimeoutError):
            future.result(0.3)
    future.result(10)
    writer.close()


def test_the_wait_for_a_database_ends(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnwise.store.database.BUSY_TIMEOUT_S", 0.1)
    database = open_database(f"sqlite:///{tmp_path}/turnwise.db", create=True)
    create_run(database)
    other = open_database(database.url)
    writer = CommitQueue(database, retry_s=0.3)
    with other.transaction():
        future = writer.submit(operations.request_stop.bind(run="r"))
        with pytest.raises(StoreUnavailable, match="database is locked"):
            future.result(10)
    writer.commit(operations.request_stop.bind(run="r"))
    writer.close()


@pytest.fixture
def impatient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """A store with run ``r`` whose connections wait 20 ms for the lock of another."""
    monkeypatch.setattr("turnwise.store.database.BUSY_TIMEOUT_S", 0.02)
    opened = open_database(f"sqlite:///{tmp_path}/turnwise.db", create=True)
    create_run(opened)
    yield opened
    opened.close()


def transactions(database: Database) -> list[float]:
    """Return a list to which the time of each attempt to begin a write transaction is added from now on.

    The pauses between attempts double, so the number of attempts bounds a wait, on a busy machine too.
    """
    begun: list[float] = []

    def note(_: Any, statement: str, *__: Any) -> None:
        if statement == "BEGIN IMMEDIATE":
            begun.append(time.monotonic())

    event.listen(database.engine, "do_execute", note)
    return begun


def test_a_store_that_is_away_is_waited_for_once(impatient: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that timed out is not repeated write by write, and the writes behind it do not wait again."""
    monkeypatch.setattr("turnwise.store.writing.commit_queue.MAX_BATCH", 8)
    writer = CommitQueue(impatient, window_ms=100, retry_s=0.5)
    begun = transactions(impatient)
    with open_database(impatient.url).transaction():
        futures = [writer.submit(operations.request_stop.bind(run="r")) for _ in range(20)]
        for future in futures:
            with pytest.raises(StoreUnavailable, match="database is locked"):
                future.result(10)
    assert len(begun) <= 4
    writer.commit(operations.request_stop.bind(run="r"))
    writer.close()


def test_a_deadline_that_passes_meanwhile_does_not_prolong_the_wait(impatient: Database) -> None:
    writer = CommitQueue(impatient, window_ms=100, retry_s=0.5)
    begun = transactions(impatient)
    with open_database(impatient.url).transaction():
        late = writer.submit(operations.request_stop.bind(run="r"), timeout_s=0.4)
        patient = writer.submit(operations.request_stop.bind(run="r"))
        for future in (late, patient):
            with pytest.raises(StoreUnavailable):
                future.result(10)
    assert len(begun) <= 5
    writer.close()


def test_a_store_that_goes_away_between_separate_writes_is_waited_for_once(impatient: Database) -> None:
    begun: list[float] = []

    def lock_after_the_batch(_: Any, statement: str, *__: Any) -> None:
        if statement == "BEGIN IMMEDIATE":
            begun.append(time.monotonic())
            if len(begun) > 1:
                raise sqlite3.OperationalError("database is locked")

    event.listen(impatient.engine, "do_execute", lock_after_the_batch)
    writer = CommitQueue(impatient, window_ms=100, retry_s=0.3)
    futures: list[Future[Any]] = [writer.submit(operations.request_stop.bind(run="nobody"))]
    futures += [writer.submit(operations.request_stop.bind(run="r")) for _ in range(8)]
    for future in futures:
        with pytest.raises(StoreUnavailable):
            future.result(10)
    assert len(begun) <= 4
    writer.close()


@pytest.mark.parametrize(
    ("message", "name", "kind"),
    [
        ("database or disk is full", "SQLITE_FULL", StoreFull),
        ("no such table: run", "SQLITE_ERROR", StoreGone),
        ("attempt to write a readonly database", "SQLITE_READONLY", StoreUnusable),
        ("database disk image is malformed", "SQLITE_CORRUPT", StoreUnusable),
    ],
)
def test_an_error_of_the_whole_database_fails_a_batch_once(
    impatient: Database, message: str, name: str, kind: type[StoreError]
) -> None:
    writer = CommitQueue(impatient, window_ms=100)
    begun = transactions(impatient)

    def fail(*_: Any) -> None:
        error = sqlite3.OperationalError(message)
        error.sqlite_errorname = name
        raise error

    event.listen(impatient.engine, "do_execute", fail)
    futures = [writer.submit(operations.request_stop.bind(run="r")) for _ in range(8)]
    for future in futures:
        with pytest.raises(kind):
            future.result(10)
    assert len(begun) == 1
    event.remove(impatient.engine, "do_execute", fail)
    writer.commit(operations.request_stop.bind(run="r"))
    writer.close()


def test_a_write_past_its_deadline_is_not_begun(impatient: Database) -> None:
    writer = CommitQueue(impatient, window_ms=0)
    with open_database(impatient.url).transaction():
        late = writer.submit(operations.request_stop.bind(run="r"), timeout_s=0.2)
        patient = writer.submit(
            operations.create_run.bind(run="s", config={}, config_hash="", kind="eval", code_version="")
        )
        with pytest.raises(StoreUnavailable, match=r"`request_stop` was not committed within 0\.2 s"):
            late.result(10)
    patient.result(10)
    with impatient.read() as conn:
        assert find_run(conn, "r").stop_requested is False
    writer.close()


def test_a_write_past_its_deadline_is_not_begun_after_another_of_its_call_failed(impatient: Database) -> None:
    begun = list[float]()

    def lock_after_the_batch(_: Any, statement: str, *__: Any) -> None:
        if statement == "BEGIN IMMEDIATE":
            begun.append(time.monotonic())
            if len(begun) > 2 and time.monotonic() < begun[0] + 1:
                raise sqlite3.OperationalError("database is locked")

    event.listen(impatient.engine, "do_execute", lock_after_the_batch)
    writer = CommitQueue(impatient, window_ms=0, retry_s=10)
    bad, good = (operations.request_stop.bind(run=run) for run in ("nobody", "r"))
    failed, late = writer.submit_all([bad.within(30), good.within(0.5)]).result(20)
    assert isinstance(failed, NotFound)
    assert isinstance(late, StoreUnavailable)
    assert "within 0.5 s" in str(late)
    with impatient.read() as conn:
        assert find_run(conn, "r").stop_requested is False
    writer.close()


def test_a_write_that_fails_alone_is_begun_once(impatient: Database) -> None:
    writer, begun = CommitQueue(impatient, window_ms=0), transactions(impatient)
    with pytest.raises(NotFound):
        writer.commit(operations.request_stop.bind(run="nobody"))
    assert len(begun) == 1
    writer.close()


def test_an_acknowledged_batch_is_on_the_disk(impatient: Database) -> None:
    """With ``synchronous=NORMAL`` (1) SQLite syncs at checkpoints of its log only; with ``FULL`` (2) at each commit."""
    synced: list[int] = []
    event.listen(impatient.engine, "commit", lambda conn: synced.append(conn.exec_driver_sql(LEVEL).scalar_one()))
    writer = CommitQueue(impatient, window_ms=0)
    writer.commit(operations.add_version.bind(run="r", update=0, parent=None))
    play_group(impatient, "g")
    writer.commit(operations.lease_groups.bind(run="r", owner="o", count=1, timeout_s=60))
    synced.clear()
    batch: dict[str, Any] = {"update": 1, "parent": 0, "items": items(["g"]), "metrics": {}}
    writer.commit(operations.acknowledge.bind(run="r", owner="o", groups=["g"], **batch))
    writer.commit(operations.set_checkpoint.bind(run="r", version=1, path="here"))
    writer.commit(operations.request_stop.bind(run="r"))
    assert synced == [2, 2, 1]
    writer.close()


def test_a_server_that_drops_every_connection_loses_nothing(server: Server, template: str) -> None:
    name = server.create(template)
    database = open_database(server.url(name))
    writer = CommitQueue(database)
    begin(database, writer, 1)
    stopped = threading.Event()

    def cut() -> None:
        while not stopped.wait(0.3):
            server.drop_connections(name)

    cutter = threading.Thread(target=cut)
    cutter.start()
    try:
        for index in range(60):
            if index % 6 == 0:
                server.drop_connections(name)
            writer.commit(operations.append.bind(trajectory="t0", **turn(index)))
    finally:
        stopped.set()
        cutter.join()
    assert len(load_trajectory(database, "t0").steps) == 60
    writer.close()
    database.close()
