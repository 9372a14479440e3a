"""Content-addressed blobs: small ones in the table ``blob``, large ones in a folder (any fsspec URL).

The name of a blob is the SHA-256 of its content, so equal content is stored once, and a read detects altered content.
A large blob is written before the row that names it, so a crash in between leaves a file without a row, never a row
without its file. In a local folder, the blob is written to a temporary file, synced and renamed.
"""

import errno
import hashlib
import os
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, bindparam, select

from ...masking import without_secrets
from ..errors import BlobCorrupt, BlobMissing, StoreError, StoreFull
from ..schema import blob, insert_once

INLINE_BYTES = 16 * 1024
"""Content up to this size is stored in the database."""

_CHUNK = 500
_SYNCED_MAX = 100_000
"""Names that one process caches as synced; above that it clears the cache."""


def digest(data: bytes) -> str:
    """Return the name of ``data``: its SHA-256 in hex."""
    return hashlib.sha256(data).hexdigest()


class BlobStore:
    """Reads and writes blobs. ``folder`` is a local path or an fsspec URL; None keeps all content in the database."""

    def __init__(self, folder: str | None) -> None:
        """Raises StoreError: the URL has an unknown protocol, or the package of its protocol is not installed."""
        self._shown = without_secrets(folder or "")
        self._local: Path | None = None
        self._remote: Any = None
        self._synced: set[str] = set()
        if folder is None:
            return
        if "://" in folder and not folder.startswith("file://"):
            self._remote, self._root = _open_remote(folder)
        else:
            self._local = Path(folder.removeprefix("file://"))

    def insert(self, conn: Connection, contents: Mapping[str, bytes]) -> None:
        """Store ``contents`` (hash → bytes); an existing blob stays as it is.

        Raises:
            StoreFull: the disk is full.
        """
        if not contents:
            return
        rows = [
            {
                "hash": name,
                "size": len(contents[name]),
                "data": None if self.write_file(name, contents[name]) else contents[name],
            }
            for name in sorted(contents)
        ]
        conn.execute(insert_once(conn.dialect.name, blob), rows)

    def write_file(self, name: str, data: bytes) -> bool:
        """Write ``data`` to the folder if it is large, before its row, and return whether it was large.

        Raises:
            StoreFull: the disk is full.
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
                    f"no room for a blob of {len(data):,} bytes in {self._shown}; committed writes are safe: "
                    "free some space and run the same command again"
                ) from error
            raise
        return False

    def get(self, conn: Connection, name: str) -> bytes:
        """Return the content of ``name``.

        Raises:
            BlobMissing: the content is missing.
            BlobCorrupt: the content has another hash.
        """
        return self.get_many(conn, [name])[name]

    def get_many(self, conn: Connection, names: Iterable[str]) -> dict[str, bytes]:
        """Return the contents of all ``names``, each compared with its hash. Raises as ``get`` does."""
        found = self.get_unchecked(conn, names)
        for name, data in found.items():
            check(name, data)
        return found

    def get_unchecked(self, conn: Connection, names: Iterable[str]) -> dict[str, bytes]:
        """Return the contents of all ``names`` without a check, for a reader that calls ``check`` and names the owner.

        Raises:
            BlobMissing: a content is missing.
        """
        wanted = sorted(set(names))
        found: dict[str, bytes] = {}
        statement = select(blob.c.hash, blob.c.data).where(blob.c.hash.in_(bindparam("names", expanding=True)))
        for start in range(0, len(wanted), _CHUNK):
            for name, data in conn.execute(statement, {"names": wanted[start : start + _CHUNK]}):
                found[name] = self._read_large(name) if data is None else bytes(data)
        for name in wanted:
            if name not in found:
                raise BlobMissing(f"the store refers to blob {name} but does not hold it")
        return found

    def _write_synced(self, path: Path, data: bytes) -> None:
        """Write ``data``; sync the file and its folders. The writer of an existing file synced that file, and may
        have died before it synced the folders.
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
                f"blob {name} is missing from `{self._shown}`: restore the folder, or name another with `?blobs=FOLDER`"
            ) from error
        raise BlobMissing(
            f"blob {name} is in a blob folder, but the store's URL names no blob folder: add `?blobs=FOLDER` to the URL"
        )

    def _remote_path(self, name: str) -> str:
        return f"{self._root}/{name[:2]}/{name[2:4]}/{name}"


def check(name: str, data: bytes) -> None:
    """Raise BlobCorrupt if the hash of ``data`` is not ``name``."""
    if digest(data) != name:
        raise BlobCorrupt(f"blob {name} was altered: its content ({len(data):,} bytes) has another hash")


def _open_remote(url: str) -> tuple[Any, str]:
    """Return the file system of an fsspec URL, and the folder's path in it."""
    try:
        import fsspec

        system, root = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError, TypeError, OSError) as error:
        # The cause is dropped: it may quote a part of the URL.
        reason = without_secrets(str(error))
        raise StoreError(
            f"the blob folder `{without_secrets(url)}` cannot be used: {reason}; correct its protocol, install the "
            "package that reads this protocol, or name a local folder with `?blobs=FOLDER`"
        ) from None
    return system, root


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
