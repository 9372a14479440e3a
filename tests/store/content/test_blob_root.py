"""A store remembers its blob folder, and uses no folder that is not its own."""

import errno
import shutil
import uuid
from pathlib import Path

import pytest
from sqlalchemy import select
from turnwise.store.content.blob_root import MARKER
from turnwise.store.content.blobs import INLINE_BYTES, PNG, BlobStore, NewBlob
from turnwise.store.content.folders import LocalFolder
from turnwise.store.database import Database, open_database, upgrade
from turnwise.store.errors import StoreError, StoreFull
from turnwise.store.schema import blob, store_setting
from turnwise.tests.store.conftest import sqlite_first
from turnwise.tests.store.postgres import Server

LARGE = NewBlob.of(b"x" * (INLINE_BYTES + 1), PNG)
SMALL = NewBlob.of(b"y", PNG)


def put(database: Database, new: NewBlob = LARGE) -> None:
    with database.transaction() as tx:
        tx.blobs.insert(tx.conn, {new.hash: new}, tx.now)


def put_and_fail(database: Database) -> None:
    with database.transaction() as tx:
        tx.blobs.insert(tx.conn, {LARGE.hash: LARGE}, tx.now)
        raise ZeroDivisionError


def settings(database: Database) -> dict[str, str]:
    with database.read() as conn:
        return {row.name: row.value for row in conn.execute(select(store_setting))}


def reads(url: str, blobs: str | None = None) -> dict[str, str]:
    """Open the store, read its large blob, and return its settings."""
    database = open_database(url, blobs=blobs)
    try:
        with database.read() as conn:
            assert len(database.blobs.get(conn, LARGE.hash)) == LARGE.size
        return settings(database)
    finally:
        database.close()


@pytest.fixture
def bare(url: str) -> str:
    """Return the URL of a new store without ``?blobs=``."""
    return url.partition("&blobs=")[0]


def filled(url: str, blobs: str | None) -> None:
    database = open_database(url, blobs=blobs)
    put(database)
    database.close()


def test_the_id_is_made_with_the_store_and_kept(url: str) -> None:
    database = open_database(url)
    first = settings(database)
    database.close()
    upgrade(url)
    database = open_database(url)
    assert settings(database) == first
    assert uuid.UUID(first["store_id"]).version == 7
    database.close()


def test_the_folder_is_recorded_with_its_first_blob(database: Database, tmp_path: Path) -> None:
    put(database, SMALL)
    assert "blob_root" not in settings(database)
    assert not (tmp_path / "turnwise.blobs").exists()
    with pytest.raises(ZeroDivisionError):
        put_and_fail(database)
    assert "blob_root" not in settings(database)
    put(database)
    recorded = settings(database)
    assert recorded["blob_root"] == ("turnwise.blobs" if "sqlite" in database.url else str(tmp_path / "turnwise.blobs"))
    assert (tmp_path / "turnwise.blobs" / MARKER).read_text().split("\n")[0] == recorded["store_id"]


@sqlite_first
def test_the_marker_precedes_the_first_blob(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    present = []

    def write(folder: LocalFolder, name: str, data: bytes) -> None:
        present.append((folder.root / MARKER).exists())

    monkeypatch.setattr(LocalFolder, "write", write)
    database.blobs.stage(LARGE)
    assert present == [True]


def test_the_recorded_folder_is_used_without_being_named(
    bare: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    filled(bare, "../elsewhere")
    monkeypatch.chdir(tmp_path)
    reads(bare)


def test_files_that_differ_in_their_suffix_have_their_own_folders(tmp_path: Path) -> None:
    folders = set()
    for name in ("x.db", "x.sqlite", "x.db.sqlite"):
        url = f"sqlite:///{tmp_path}/{name}"
        upgrade(url)
        database = open_database(url)
        put(database)
        folders.add(Path(str(database.blobs.folder)).name)
        database.close()
        reads(url)
    assert folders == {"x.blobs", "x.sqlite.blobs", "x.db.sqlite.blobs"}


@sqlite_first
def test_a_moved_folder_is_named_once(bare: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(bare, str(tmp_path / "first"))
    (tmp_path / "first").rename(tmp_path / "second")
    with pytest.raises(StoreError, match=r"/first` lacks the file `turnwise-store`.*name its new place with `\?blobs="):
        open_database(bare)
    monkeypatch.setenv("TURNWISE_BLOBS", str(tmp_path / "second"))
    reads(bare)
    filled(bare, None)
    monkeypatch.delenv("TURNWISE_BLOBS")
    reads(bare)


def test_a_store_can_be_moved_with_its_folder(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    url = f"sqlite:///{tmp_path}/a/turnwise.db"
    upgrade(url)
    filled(url, None)
    (tmp_path / "a").rename(tmp_path / "b")
    reads(f"sqlite:///{tmp_path}/b/turnwise.db")


@sqlite_first
@pytest.mark.parametrize("has_blobs", [False, True])
def test_the_folder_of_another_store_is_refused(bare: str, tmp_path: Path, has_blobs: bool) -> None:
    other = f"sqlite:///{tmp_path}/other/turnwise.db"
    upgrade(other)
    filled(other, None)
    if has_blobs:
        filled(bare, str(tmp_path / "own"))
    with pytest.raises(StoreError, match=r"other/turnwise.blobs` belongs to another store: .*`\?blobs=FOLDER`"):
        open_database(bare, blobs=str(tmp_path / "other" / "turnwise.blobs"))


@sqlite_first
def test_a_folder_that_another_store_marks_after_the_open_is_refused(bare: str, tmp_path: Path) -> None:
    other = f"sqlite:///{tmp_path}/other/turnwise.db"
    upgrade(other)
    database = open_database(bare, blobs=str(tmp_path / "shared"))
    filled(other, str(tmp_path / "shared"))
    with pytest.raises(StoreError, match="belongs to another store"):
        put(database)
    with database.read() as conn:
        assert conn.execute(select(blob)).all() == []
    database.close()


@sqlite_first
def test_a_lost_folder_is_refused_until_its_marker_is_written_by_hand(bare: str, tmp_path: Path) -> None:
    filled(bare, str(tmp_path / "lost"))
    shutil.rmtree(tmp_path / "lost")
    with pytest.raises(StoreError, match="if its content is lost, write the line") as raised:
        open_database(bare)
    (tmp_path / "lost").mkdir()
    (tmp_path / "lost" / MARKER).write_text(str(raised.value).partition("write the line ")[2][:32] + "\n")
    open_database(bare).close()


@sqlite_first
def test_a_remote_folder_is_recorded_and_verified(bare: str) -> None:
    folder = f"memory://{uuid.uuid4().hex}"
    filled(bare, folder)
    assert reads(bare)["blob_root"] == folder
    with pytest.raises(StoreError, match="lacks the file"):
        open_database(bare, blobs=f"memory://{uuid.uuid4().hex}")


@sqlite_first
def test_credentials_are_not_recorded(bare: str) -> None:
    folder = f"memory://key:hunter2@{uuid.uuid4().hex}"
    filled(bare, folder)
    assert reads(bare, folder)["blob_root"] == folder.replace("hunter2", "***")
    with pytest.raises(StoreError, match="needs credentials, which the store does not keep") as raised:
        open_database(bare)
    assert "hunter2" not in str(raised.value)


@sqlite_first
def test_a_folder_that_cannot_be_read_is_named(bare: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object, **__: object) -> bytes:
        raise PermissionError("no access with memory://key:hunter2@bucket")

    monkeypatch.setattr("fsspec.implementations.memory.MemoryFileSystem.cat_file", denied)
    with pytest.raises(StoreError, match=r"`memory://key:\*\*\*@bucket` cannot be read: no access") as raised:
        open_database(bare, blobs="memory://key:hunter2@bucket")
    assert "hunter2" not in str(raised.value)


@sqlite_first
def test_a_process_with_another_folder_at_the_same_path_is_refused(database: Database, tmp_path: Path) -> None:
    root = database.blobs.share()
    assert root is not None
    assert BlobStore(str(tmp_path / "turnwise.blobs"), root).stage(LARGE).stored is None
    (tmp_path / "turnwise.blobs").rename(tmp_path / "of another host")
    with pytest.raises(StoreError, match="lacks the file `turnwise-store` of this store"):
        BlobStore(str(tmp_path / "turnwise.blobs"), root)


def test_without_a_folder_nothing_is_shared(server: Server, template: str) -> None:
    database = open_database(server.url(server.create(template)))
    assert database.blobs.share() is None
    database.close()


@sqlite_first
def test_a_disk_without_room_for_the_marker_is_named(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "no room")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        with pytest.raises(StoreFull, match="no room for the file `turnwise-store`"):
            database.blobs.share()
    assert database.blobs.share() is not None
