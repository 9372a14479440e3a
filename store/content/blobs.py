"""Content-addressed blobs: small ones in the ``blob`` table itself, large ones in a folder (any fsspec URL).

A blob's name is the SHA-256 of its content, so equal content is stored once and altered content is found out: every
read checks the hash. A large blob is written aside, synced and renamed before the row that names it is written; a
crash in between leaves a file nobody names, never a name without its file.
"""

import errno
import hashlib
import os
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, bindparam, select

from ..errors import BlobCorrupt, BlobMissing, StoreFull
from ..schema import blob, insert_once

INLINE_BYTES = 16 * 1024
"""Content up to this many bytes stands in the database."""

_CHUNK = 500
_SYNCED_MAX = 100_000
"""Names that one process remembers as synced; it forgets them all when there are more."""


def digest(data: bytes) -> str:
    """The name of ``data``: its SHA-256 in hex."""
    return hashlib.sha256(data).hexdigest()


class BlobStore:
    """Reads and writes blobs. ``folder`` is a local path or an fsspec URL; None keeps everything in the database."""

    def __init__(self, folder: str | None) -> None:
        self.folder = folder
        self._local: Path | None = None
        self._remote: Any = None
        self._synced: set[str] = set()
        if folder is None:
            return
        if "://" in folder and not folder.startswith("file://"):
            import fsspec

            self._remote, self._root = fsspec.core.url_to_fs(folder)
        else:
            self._local = Path(folder.removeprefix("file://"))

    def put(self, conn: Connection, contents: Mapping[str, bytes]) -> None:
        """Stores ``contents`` (hash -> bytes); what is already there is left as it is.

        Raises:
            StoreFull: there is no room for a large one.
        """
        if not contents:
            return
        rows = [
            {
                "hash": name,
                "size": len(contents[name]),
                "data": None if self.stage(name, contents[name]) else contents[name],
            }
            for name in sorted(contents)
        ]
        conn.execute(insert_once(conn.dialect.name, blob), rows)

    def stage(self, name: str, data: bytes) -> bool:
        """Writes ``data`` to the folder if it is large, ahead of its row; True if it lives there.

        Raises:
            StoreFull: there is no room.
        """
        if len(data) <= INLINE_BYTES:
            return False
        try:
            if self._local is not None:
                self._write_synced(self._local / name[:2] / name[2:4] / name, data)
                return True
            if self._remote is not None:
                self._remote.pipe_file(self._remote_path(name), data)
                return True
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StoreFull(
                    f"no room for a blob of {len(data):,} bytes in {self.folder}; nothing stored is lost: "
                    "free some space and run the same command again"
                ) from error
            raise
        return False

    def get(self, conn: Connection, name: str) -> bytes:
        """The content named ``name``.

        Raises:
            BlobMissing: there is none.
            BlobCorrupt: it no longer has that hash.
        """
        return self.get_many(conn, [name])[name]

    def get_many(self, conn: Connection, names: Iterable[str]) -> dict[str, bytes]:
        """The contents of all ``names``, each checked against its hash. Raises as ``get`` does."""
        found = self.get_unchecked(conn, names)
        for name, data in found.items():
            check(name, data)
        return found

    def get_unchecked(self, conn: Connection, names: Iterable[str]) -> dict[str, bytes]:
        """The contents of all ``names`` as they are; for a reader that calls ``check`` itself, to say whose they are.

        Raises:
            BlobMissing: one is not there.
        """
        wanted = sorted(set(names))
        found: dict[str, bytes] = {}
        statement = select(blob.c.hash, blob.c.data).where(blob.c.hash.in_(bindparam("names", expanding=True)))
        for start in range(0, len(wanted), _CHUNK):
            for name, data in conn.execute(statement, {"names": wanted[start : start + _CHUNK]}):
                found[name] = self._read_large(name) if data is None else bytes(data)
        for name in wanted:
            if name not in found:
                raise BlobMissing(f"blob {name} is named in the store but not stored")
        return found

    def _write_synced(self, path: Path, data: bytes) -> None:
        """Write ``data`` and sync file and folders. A file that stands there was synced by its writer, its folders
        perhaps not: that writer may have died after the rename.
        """
        if not (path.exists() and path.stat().st_size == len(data)):
            _write_aside(path, data)
        elif path.name in self._synced:
            return
        for folder in (path.parent, path.parent.parent, path.parent.parent.parent):
            _sync_folder(folder)
        if len(self._synced) >= _SYNCED_MAX:
            self._synced.clear()
        self._synced.add(path.name)

    def _read_large(self, name: str) -> bytes:
        try:
            if self._local is not None:
                return (self._local / name[:2] / name[2:4] / name).read_bytes()
            if self._remote is not None:
                return bytes(self._remote.cat_file(self._remote_path(name)))
        except FileNotFoundError as error:
            raise BlobMissing(
                f"blob {name} should be in {self.folder} and is not; was the folder moved or emptied?"
            ) from error
        raise BlobMissing(
            f"blob {name} is in a folder, and none is known; open the store with `?blobs=FOLDER` in its URL"
        )

    def _remote_path(self, name: str) -> str:
        return f"{self._root}/{name[:2]}/{name[2:4]}/{name}"


def check(name: str, data: bytes) -> None:
    """Raises BlobCorrupt if ``data`` is not what ``name`` names."""
    if digest(data) != name:
        raise BlobCorrupt(f"blob {name} was altered: its content ({len(data):,} bytes) has another hash")


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


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
