"""The folders of large content: a local one, whose files are synced, and one behind any other fsspec URL.

A file has the hash of its content as its name, in two levels of folders. A local file is written to a temporary name,
synced and renamed. It is renamed again before it is deleted, so that no writer loses one.
"""

import os
import re
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from ...base.masking import without_secrets
from ..errors import BlobMissing, StoreError, StoreUnavailable

MAX_CONCURRENT_READS = 16
READ_ATTEMPTS = 5
"""Attempts to read one file of a remote folder."""
PAUSE_S = 0.1
"""Seconds before the second attempt; they double with each further one."""
_SYNCED_MAX = 100_000
"""Names that one process caches as synced; above that it clears the cache."""
_HASH = re.compile(r"[0-9a-f]{64}")
_PARTIAL = re.compile(r"\.([0-9a-f]{64})\.[0-9a-f]{32}")
"""The name of a file that a writer has not finished, or left behind when it died."""
_REMOVED = re.compile(r"\.([0-9a-f]{64})\.removed")


@dataclass(frozen=True, slots=True)
class BlobFile:
    """A file of the blob folder."""

    path: str
    """Path in the local folder, or in the remote file system."""
    name: str
    """The hash of its content."""
    size: int
    modified: datetime
    is_partial: bool = False
    is_removed: bool = False


class Folder(Protocol):
    """A place for the files of large content."""

    def write(self, name: str, data: bytes) -> None:
        """Write the content ``name``, synced; repeatable. Raises OSError."""

    def read(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return the contents of ``names``, unchecked. Raises BlobMissing, StoreUnavailable."""

    def exists(self, name: str) -> bool:
        """Return whether the content ``name`` has a file."""

    def read_top(self, name: str) -> bytes:
        """Return the bytes of the file ``name`` at the top of the folder. Raises FileNotFoundError."""

    def write_top(self, name: str, data: bytes) -> None:
        """Write the file ``name`` at the top of the folder, synced. Raises OSError."""

    def files(self) -> Iterator[BlobFile]:
        """Yield every file of content, in no order."""

    def remove(self, file: BlobFile, before: datetime) -> bool:
        """Delete ``file`` unless it was written at ``before`` or later, and return whether it was deleted."""

    def restore(self, file: BlobFile) -> None:
        """Return a removed file to its name, unless a writer wrote the content again meanwhile."""


def open_folder(folder: str) -> Folder:
    """Return the folder at a local path or an fsspec URL. Raises StoreError."""
    if "://" in folder and not folder.startswith("file://"):
        return RemoteFolder(folder)
    return LocalFolder(Path(folder.removeprefix("file://")))


class LocalFolder:
    """A folder of this host."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._synced: set[str] = set()

    def path_of(self, name: str) -> Path:
        """Return the path of the content ``name``."""
        return self.root / _path(name)

    def write(self, name: str, data: bytes) -> None:
        """Write ``data``; sync the file and its folders. The writer of an existing file synced that file, and may
        have died before it synced the folders.
        """
        path = self.path_of(name)
        if not _renew(path, len(data)):
            _write_aside(path, data)
        elif name in self._synced:
            return
        for folder in (path.parent, path.parent.parent, self.root):
            sync(folder)
        if len(self._synced) >= _SYNCED_MAX:
            self._synced.clear()
        self._synced.add(name)

    def read(self, names: Sequence[str]) -> dict[str, bytes]:
        found = {}
        for name in names:
            try:
                found[name] = self.path_of(name).read_bytes()
            except FileNotFoundError as error:
                raise _missing(name, str(self.root)) from error
        return found

    def exists(self, name: str) -> bool:
        return self.path_of(name).exists()

    def read_top(self, name: str) -> bytes:
        return (self.root / name).read_bytes()

    def write_top(self, name: str, data: bytes) -> None:
        _write_aside(self.root / name, data)
        sync(self.root)

    def files(self) -> Iterator[BlobFile]:
        for folder in sorted(self.root.glob("[0-9a-f][0-9a-f]/[0-9a-f][0-9a-f]")):
            with os.scandir(folder) as entries:
                for entry in entries:
                    partial, removed = _PARTIAL.fullmatch(entry.name), _REMOVED.fullmatch(entry.name)
                    named = partial or removed
                    if named is None and not _HASH.fullmatch(entry.name):
                        continue
                    try:
                        found = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue
                    modified = datetime.fromtimestamp(found.st_mtime, UTC)
                    name = named[1] if named else entry.name
                    yield BlobFile(entry.path, name, found.st_size, modified, partial is not None, removed is not None)

    def remove(self, file: BlobFile, before: datetime) -> bool:
        """Rename the file before it is deleted: a writer that renewed it before that has changed its time, and a writer
        that comes later finds no file and writes it again.
        """
        path = Path(file.path)
        if file.is_partial or file.is_removed:
            path.unlink(missing_ok=True)
            return True
        aside = path.with_name(f".{file.name}.removed")
        try:
            path.rename(aside)
        except FileNotFoundError:
            return False
        if datetime.fromtimestamp(aside.stat().st_mtime, UTC) >= before:
            self.restore(replace(file, path=str(aside), is_removed=True))
            return False
        aside.unlink()
        return True

    def restore(self, file: BlobFile) -> None:
        path = Path(file.path)
        original = path.with_name(file.name)
        if original.exists():
            path.unlink(missing_ok=True)
        else:
            path.rename(original)


class RemoteFolder:
    """A folder behind an fsspec URL. Its file system syncs."""

    def __init__(self, url: str) -> None:
        """Raises StoreError: the protocol is unknown, or its package is not installed."""
        self._shown = without_secrets(url)
        try:
            import fsspec

            system, root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError, TypeError, OSError) as error:
            # The cause is dropped: it may quote a part of the URL.
            raise StoreError(
                f"the blob folder `{self._shown}` cannot be used: {without_secrets(str(error))}; correct its protocol, "
                "install the package that reads this protocol, or name a local folder with `?blobs=FOLDER`"
            ) from None
        self._system: Any = system
        self._root = root

    def _path_of(self, name: str) -> str:
        return f"{self._root}/{_path(name)}"

    def write(self, name: str, data: bytes) -> None:
        self._system.pipe_file(self._path_of(name), data)

    def read(self, names: Sequence[str]) -> dict[str, bytes]:
        """Read the files at the same time, each again after a transient error."""
        if not names:
            return {}
        with ThreadPoolExecutor(min(len(names), MAX_CONCURRENT_READS), "turnwise-blobs") as pool:
            return dict(zip(names, pool.map(self._read_again, names), strict=True))

    def _read_again(self, name: str) -> bytes:
        """Read one file; the libraries of remote folders raise errors of many types, and any may be transient."""
        attempt = 1
        while True:
            try:
                return bytes(self._system.cat_file(self._path_of(name)))
            except FileNotFoundError as error:
                raise _missing(name, self._shown) from error
            except Exception as error:  # noqa: BLE001 - the last one is raised
                if attempt == READ_ATTEMPTS:
                    # The cause is dropped: it may quote a part of the folder's URL.
                    raise StoreUnavailable(
                        f"blob {name} could not be read from `{self._shown}` in {READ_ATTEMPTS} attempts: "
                        f"{without_secrets(str(error)) or type(error).__name__}; check the folder's server and the "
                        "network"
                    ) from None
            time.sleep(PAUSE_S * 2 ** (attempt - 1))
            attempt += 1

    def exists(self, name: str) -> bool:
        return bool(self._system.exists(self._path_of(name)))

    def read_top(self, name: str) -> bytes:
        return bytes(self._system.cat_file(f"{self._root}/{name}"))

    def write_top(self, name: str, data: bytes) -> None:
        self._system.pipe_file(f"{self._root}/{name}", data)

    def files(self) -> Iterator[BlobFile]:
        for number in range(256):
            folder = f"{self._root}/{number:02x}"
            if not self._system.exists(folder):
                continue
            for path, details in self._system.find(folder, detail=True).items():
                name = path.rpartition("/")[2]
                if _HASH.fullmatch(name):
                    yield BlobFile(path, name, int(details["size"]), self._system.modified(path))

    def remove(self, file: BlobFile, before: datetime) -> bool:
        """Delete the file; nothing protects a writer between the look at its time and its deletion."""
        if self._system.modified(file.path) >= before:
            return False
        self._system.rm_file(file.path)
        return True

    def restore(self, file: BlobFile) -> None:
        raise NotImplementedError("a remote folder has no removed files")


def _path(name: str) -> str:
    return f"{name[:2]}/{name[2:4]}/{name}"


def _missing(name: str, folder: str) -> BlobMissing:
    return BlobMissing(
        f"blob {name} is missing from `{folder}`: restore the folder, or name another with `?blobs=FOLDER`"
    )


def _write_aside(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with aside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        aside.rename(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def _renew(path: Path, size: int) -> bool:
    """Renew the time of a file, so that no garbage collection deletes it; False if no file of ``size`` bytes exists."""
    try:
        os.utime(path)
        return path.stat().st_size == size
    except FileNotFoundError:
        return False


def sync(path: Path) -> None:
    """Write a file, or the names of a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
