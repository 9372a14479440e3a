"""Content is named by its hash, stored once, read completely, and checked for alterations."""

import errno
import hashlib
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import func, select, update
from turnwise.store.content.blob_root import MARKER
from turnwise.store.content.blobs import INLINE_BYTES, PNG, TEXT, ZLIB, BlobStore, NewBlob, digest
from turnwise.store.database import Database, open_database
from turnwise.store.errors import BlobCorrupt, BlobMissing, StoreError, StoreFull
from turnwise.store.schema import blob
from turnwise.store.schema.types import escape, unescape
from turnwise.tests.store.conftest import sqlite_first

LARGE = b"x" * (INLINE_BYTES + 1)
SMALL = b"y" * INLINE_BYTES


NEW = NewBlob.of(LARGE, PNG)


def put(database: Database, *contents: bytes) -> None:
    with database.transaction() as tx:
        tx.blobs.insert(tx.conn, {digest(content): NewBlob.of(content, PNG) for content in contents}, tx.now)


def get(database: Database, content: bytes) -> bytes:
    with database.read() as conn:
        return database.blobs.get(conn, digest(content))


def files(folder: Path) -> list[Path]:
    """Return the files of blobs."""
    return [path for path in folder.rglob("*") if path.is_file() and path.name != MARKER]


def test_small_content_is_in_the_database_and_large_content_in_the_folder(database: Database, tmp_path: Path) -> None:
    for _ in range(2):
        put(database, SMALL, LARGE, b"")
    assert [get(database, content) for content in (SMALL, LARGE, b"")] == [SMALL, LARGE, b""]
    name = hashlib.sha256(LARGE).hexdigest()
    assert files(tmp_path / "turnwise.blobs") == [tmp_path / "turnwise.blobs" / name[:2] / name[2:4] / name]
    with database.read() as conn:
        assert conn.execute(select(func.count()).select_from(blob)).scalar_one() == 3


@sqlite_first
def test_altered_content_is_detected(database: Database, tmp_path: Path) -> None:
    put(database, SMALL, LARGE)
    with database.transaction() as tx:
        tx.conn.execute(update(blob).where(blob.c.data.is_not(None)).values(data=b"z"))
    files(tmp_path / "turnwise.blobs")[0].write_bytes(LARGE[:-1] + b"z")
    for content in (SMALL, LARGE):
        with pytest.raises(BlobCorrupt, match=digest(content)):
            get(database, content)


def test_text_inserted_by_hand_is_detected(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path}/turnwise.db", create=True)
    put(database, SMALL)
    with database.transaction() as tx:
        tx.conn.exec_driver_sql("UPDATE blob SET data = data || 'z'")
    with pytest.raises(BlobCorrupt):
        get(database, SMALL)
    database.close()


@sqlite_first
def test_missing_content_is_named(database: Database, tmp_path: Path) -> None:
    with pytest.raises(BlobMissing, match=digest(SMALL)):
        get(database, SMALL)
    put(database, LARGE)
    files(tmp_path / "turnwise.blobs")[0].unlink()
    with pytest.raises(BlobMissing, match="restore the folder"):
        get(database, LARGE)


def test_a_blob_is_synced_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any write, sync or rename may fail: no file has the name of a blob unless its content is whole."""
    calls: list[str] = []
    fsync, rename = os.fsync, Path.rename

    def failing(name: str) -> None:
        calls.append(name)
        if len(calls) == nth:
            raise OSError(5, "input/output error")

    def watched_fsync(descriptor: int) -> None:
        failing("fsync")
        fsync(descriptor)

    def watched_rename(self: Path, target: Path) -> Path:
        failing("rename")
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(Path, "rename", watched_rename)
    for nth in range(1, 6):
        calls.clear()
        folder = tmp_path / str(nth)
        store = BlobStore(str(folder))
        with pytest.raises(OSError, match="input/output"):
            store.stage(NEW)
        assert all(path.read_bytes() == LARGE for path in files(folder))
        assert store.stage(NEW).stored is None
    assert calls[:2] == ["fsync", "rename"]


def test_the_folders_of_a_file_that_another_writer_left_are_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That writer may have died between its rename and its sync; a power cut then takes the file, not our row."""
    synced: list[int] = []
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    name = digest(LARGE)
    path = tmp_path / name[:2] / name[2:4] / name
    path.parent.mkdir(parents=True)
    path.write_bytes(LARGE)
    folders = [path.parent.stat().st_ino, path.parent.parent.stat().st_ino, tmp_path.stat().st_ino]
    monkeypatch.setattr(os, "fsync", watched)
    store = BlobStore(str(tmp_path))
    assert store.stage(NEW).stored is None
    assert synced == folders
    assert store.stage(NEW).stored is None
    assert synced == folders, "one process syncs the folders of one blob once"


@sqlite_first
def test_long_text_is_compressed_and_damage_is_detected(database: Database, tmp_path: Path) -> None:
    text = b"the same line\n" * 3000
    new = NewBlob.of(text, TEXT)
    assert (new.encoding, new.size, new.hash) == (ZLIB, len(text), digest(text))
    with database.transaction() as tx:
        tx.blobs.insert(tx.conn, {new.hash: new}, tx.now)
    assert get(database, text) == text
    with database.transaction() as tx:
        tx.conn.execute(update(blob).values(data=b"not compressed"))
    with pytest.raises(BlobCorrupt, match=digest(text)):
        get(database, text)


def test_any_fsspec_folder_works(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path}/turnwise.db", create=True, blobs="memory://turnwise-test")
    put(database, LARGE)
    assert get(database, LARGE) == LARGE
    assert files(tmp_path / "turnwise.blobs") == []
    database.close()


@given(st.text(st.characters(), max_size=50))
def test_any_text_can_be_stored(text: str) -> None:
    stored = escape(text)
    assert "\x00" not in stored
    stored.encode()
    assert unescape(stored) == text


def test_the_error_of_a_full_remote_folder_hides_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr("fsspec.implementations.memory.MemoryFileSystem.pipe_file", full)
    with pytest.raises(StoreFull, match=r"in memory://key:\*\*\*@bucket/y;"):
        BlobStore("memory://key:secret@bucket/y").stage(NEW)


@pytest.mark.parametrize(
    ("protocol", "reason"), [("s3", "Install s3fs.*"), ("foo", "Protocol not known: foo")], ids=["package", "protocol"]
)
def test_a_protocol_that_cannot_be_read_is_named(protocol: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    expected = rf"`{protocol}://key:\*\*\*@bucket` cannot be used: {reason}; correct its protocol, install"
    with pytest.raises(StoreError, match=expected):
        BlobStore(f"{protocol}://key:secret@bucket")
