"""Blobs of a remote folder are read together, and again after a transient error."""

import threading
from collections.abc import Callable

import pytest
from turnwise.store.content import folders
from turnwise.store.content.folders import RemoteFolder
from turnwise.store.errors import BlobMissing, StoreUnavailable

Read = Callable[[str], bytes]


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> Callable[[Read], RemoteFolder]:
    """Return a function that makes a folder whose files are read by a function of their names."""

    def make(read: Read) -> RemoteFolder:
        cat = lambda _, path: read(path.rpartition("/")[2])  # noqa: E731
        monkeypatch.setattr("fsspec.implementations.memory.MemoryFileSystem.cat_file", cat)
        return RemoteFolder("memory://bucket")

    return make


def test_many_are_read_at_the_same_time(remote: Callable[[Read], RemoteFolder]) -> None:
    together = threading.Barrier(4, timeout=10)

    def read(name: str) -> bytes:
        together.wait()
        return name.encode()

    folder = remote(read)
    assert folder.read(list("abcd")) == {"a": b"a", "b": b"b", "c": b"c", "d": b"d"}
    assert folder.read([]) == {}


def test_a_transient_error_is_followed_by_another_attempt(
    remote: Callable[[Read], RemoteFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "PAUSE_S", 0.001)
    failures = {"a": 2, "b": 0, "c": folders.READ_ATTEMPTS}

    def read(name: str) -> bytes:
        failures[name] -= 1
        if failures[name] >= 0:
            raise ConnectionResetError("reset by https://key:secret@host/c")
        return name.encode()

    folder = remote(read)
    assert folder.read(["a", "b"]) == {"a": b"a", "b": b"b"}
    with pytest.raises(
        StoreUnavailable, match=r"blob c could not be read from `memory://bucket` in 5 attempts"
    ) as raised:
        folder.read(["c"])
    assert "secret" not in str(raised.value)


def test_a_missing_file_is_looked_for_once(remote: Callable[[Read], RemoteFolder]) -> None:
    calls = []

    def read(name: str) -> bytes:
        calls.append(name)
        raise FileNotFoundError(name)

    with pytest.raises(BlobMissing):
        remote(read).read(["a"])
    assert calls == ["a"]
