"""Content without a reference is deleted; content that a row names, or a writer is about to name, stays."""

import os
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, event, func, select
from turnwise.store.content.blob_root import MARKER
from turnwise.store.content.blobs import PNG, RENEWAL, NewBlob
from turnwise.store.content.folders import BlobFile, LocalFolder
from turnwise.store.database import Database, open_database
from turnwise.store.errors import StoreError
from turnwise.store.maintenance.garbage import REFERENCES, Swept, sweep
from turnwise.store.maintenance.integrity import check_store
from turnwise.store.schema import blob, metadata, step_image
from turnwise.tests.store.conftest import sqlite_first
from turnwise.tests.store.maintenance.populated import LARGE_SCREEN, play_illustrated
from turnwise.tests.store.making import start

NOW = datetime.now(UTC) + timedelta(hours=1)
"""Later than everything that a test writes."""


def large(number: int) -> NewBlob:
    return NewBlob.of(LARGE_SCREEN + number.to_bytes(4, "big"), PNG)


def store_unnamed(database: Database, new: NewBlob) -> Path:
    """Store a blob that nothing names, and return its file."""
    with database.transaction() as tx:
        tx.blobs.insert(tx.conn, {new.hash: new}, tx.now)
    return file_of(database, new)


def file_of(database: Database, new: NewBlob) -> Path:
    assert isinstance(database.blobs.files, LocalFolder)
    return database.blobs.files.path_of(new.hash)


def files_of(database: Database) -> list[BlobFile]:
    assert database.blobs.files is not None
    return list(database.blobs.files.files())


def rows(database: Database) -> int:
    with database.read() as conn:
        return int(conn.execute(select(func.count()).select_from(blob)).scalar_one())


def test_every_column_with_a_hash_of_content_is_a_reference() -> None:
    """A column of another name would be overlooked, and its content deleted."""
    declared = {
        foreign.parent.name
        for table in metadata.tables.values()
        for foreign in table.foreign_keys
        if foreign.column.table is blob
    }
    assert declared <= {column.name for column in REFERENCES}
    assert {str(column) for column in REFERENCES} == {
        "message_image.blob_hash",
        "partial_turn.messages_blob",
        "step.messages_blob",
        "step.observation_blob",
        "step_image.blob_hash",
        "trajectory.final_observation_blob",
    }


def test_unnamed_content_is_deleted_and_named_content_stays(database: Database) -> None:
    start(database)
    play_illustrated(database, "g")
    named = rows(database)
    path = store_unnamed(database, large(1))
    assert sweep(database, NOW, dry_run=True).blobs == 1
    swept = sweep(database, NOW)
    assert (swept.blobs, swept.files) == (1, 1)
    assert not path.exists()
    assert rows(database) == named
    assert list(check_store(database, content=True)) == []
    with database.transaction() as tx:
        tx.conn.execute(delete(step_image).where(step_image.c.trajectory_no == 1))
    assert sweep(database, NOW).blobs == 1


def test_a_copy_of_the_database_deletes_no_file_of_the_original(
    database: Database, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    store_unnamed(database, large(0))
    database.close()
    if "sqlite" in database.url:
        shutil.copy(tmp_path / "turnwise.db", tmp_path / "backup.db")
        copy = open_database(f"sqlite:///{tmp_path}/backup.db")
    else:
        server = request.getfixturevalue("server")
        name = server.create(database.engine.url.database)
        copy = open_database(f"{server.url(name)}&blobs={tmp_path}/turnwise.blobs")
    file = store_unnamed(database, large(1))
    with pytest.raises(StoreError, match="a copy of it, which deletes none of them") as refused:
        sweep(copy, NOW)
    assert file.exists()
    line = str(refused.value).partition("write `")[2].partition("`")[0]
    marker = tmp_path / "turnwise.blobs" / MARKER
    marker.write_text(marker.read_text().split("\n")[0] + f"\n{line}\n")
    assert sweep(copy, NOW).files == 2, "the copy owns the folder now"
    with pytest.raises(StoreError):
        sweep(database, NOW)
    copy.close()


@sqlite_first
def test_a_staged_file_stays_for_the_grace_period(database: Database) -> None:
    database.blobs.stage(large(1))
    path = file_of(database, large(1))
    assert sweep(database, datetime.now(UTC) - timedelta(minutes=1)) == Swept()
    assert path.exists()
    assert sweep(database, NOW).files == 1
    assert not path.exists()


@sqlite_first
def test_content_that_is_written_again_gets_a_new_time(database: Database) -> None:
    new = large(1)
    path = store_unnamed(database, new)
    old = datetime.now(UTC) - 3 * RENEWAL
    os.utime(path, (old.timestamp(), old.timestamp()))
    with database.transaction() as tx:
        tx.conn.execute(blob.update().values(created_at=old))
    store_unnamed(database, new)
    assert sweep(database, datetime.now(UTC) - 2 * RENEWAL) == Swept()
    assert path.exists()


@sqlite_first
def test_a_file_that_was_renamed_when_the_sweep_died_is_restored(database: Database) -> None:
    start(database)
    play_illustrated(database, "g")
    named = files_of(database)[0]
    path = Path(named.path)
    path.rename(path.with_name(f".{named.name}.removed"))
    assert [found.table for found in check_store(database, content=True)] == ["blob"]
    sweep(database, NOW)
    assert list(check_store(database, content=True)) == []


@sqlite_first
def test_a_file_that_a_dead_writer_left_is_deleted(database: Database) -> None:
    path = store_unnamed(database, large(1))
    left = path.with_name(f".{path.name}.{'0' * 32}")
    left.write_bytes(b"half")
    sweep(database, NOW)
    assert not left.exists()


class Broken(Exception):
    """The injected fault."""


@sqlite_first
def test_a_sweep_that_fails_at_any_point_loses_nothing(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The n-th statement, commit, rename or deletion fails, for every n."""
    start(database)
    play_illustrated(database, "g")
    named = {file.name for file in files_of(database)}
    left = 0

    def fail(*_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Broken

    def failing(change: Any) -> Any:
        def changed(*arguments: Any, **keywords: Any) -> Any:
            fail()
            return change(*arguments, **keywords)

        return changed

    event.listen(database.engine, "after_cursor_execute", fail)
    event.listen(database.engine, "commit", fail)
    for name in ("rename", "unlink"):
        monkeypatch.setattr(Path, name, failing(getattr(Path, name)))
    for nth in range(1, 100):
        left = 0
        paths = [store_unnamed(database, large(number)) for number in range(2)]
        left = nth
        try:
            sweep(database, NOW)
        except Broken:
            left = 0
            assert list(check_store(database, content=True)) == []
        else:
            break
    assert 10 < nth < 99
    assert not any(path.exists() for path in paths)
    assert {file.name for file in files_of(database)} == named


SWEEPER = """
import sys
from datetime import UTC, datetime, timedelta
from turnwise.store.database import open_database
from turnwise.store.maintenance.garbage import sweep
from turnwise.tests.store.maintenance.test_garbage import large
database = open_database(sys.argv[1])
print("ready", flush=True)
while True:
    for number in range(40):
        new = large(number)
        with database.transaction() as tx:
            tx.blobs.insert(tx.conn, {new.hash: new}, tx.now)
    sweep(database, datetime.now(UTC) + timedelta(hours=1))
"""


@pytest.mark.soak
def test_a_sweep_killed_at_any_point_loses_nothing(url: str, database: Database) -> None:
    start(database)
    play_illustrated(database, "g")
    for pause_s in [0.01 * number for number in range(40)]:
        with subprocess.Popen([sys.executable, "-c", SWEEPER, url], stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            time.sleep(pause_s)
            child.kill()
    with database.read() as conn:
        assert conn.execute(select(func.count()).select_from(step_image)).scalar_one() > 0
    sweep(database, NOW)
    assert list(check_store(database, content=True)) == []
    assert {file.name for file in files_of(database)} == {NewBlob.of(LARGE_SCREEN, PNG).hash}
