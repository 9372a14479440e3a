"""Content-addressed blobs: small ones in the table ``blob``, large ones in a folder (any fsspec URL).

The name of a blob is the SHA-256 of its content, so equal content is stored once, and a read detects altered content.
Long texts are compressed. ``stage`` writes a large blob to the folder, in any process and before any transaction;
``insert`` adds the rows. A crash in between leaves a file without a row, never a row without its file.
"""

import errno
import hashlib
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy import Connection, bindparam, select, update

from ...base.masking import without_secrets
from ..errors import BlobCorrupt, BlobMissing, StoreError, StoreFull
from ..schema import KEYS_MAX, among, blob, insert_once
from .blob_root import MARKER, BlobRoot
from .compression import inflate
from .folders import Folder, open_folder

INLINE_BYTES = 16 * 1024
"""Content up to this size, as it is stored, is in the database."""
TEXT, PNG, MESSAGES = "text/plain", "image/png", "application/vnd.turnwise.messages"
"""Media types. Text is UTF-8, escaped as ``types.escape`` does; messages are as ``message_codec`` writes them."""
IN_DATABASE, IN_FOLDER = "database", "folder"
"""The locations of a blob."""
ZLIB = "zlib"
"""The encoding of a compressed blob; an empty encoding means that the content is stored as it is."""

RENEWAL = timedelta(minutes=10)
"""The age from which a blob that is written again gets the present time; a garbage collection keeps content for at
least twice as long after its last write."""

_RENEW = update(blob).where(
    blob.c.hash.in_(bindparam("names", expanding=True)), blob.c.created_at < bindparam("before")
)
_LEVEL = 1


def digest(data: bytes) -> str:
    """Return the name of ``data``: its SHA-256 in hex."""
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True, slots=True)
class NewBlob:
    """A blob to be inserted: its name, and its bytes as they are stored."""

    hash: str
    size: int
    """Bytes of the content, before any compression."""
    media_type: str
    encoding: str
    stored: bytes | None
    """None once the bytes are in the folder."""

    @classmethod
    def of(cls, content: bytes, media_type: str) -> "NewBlob":
        """Return the blob of ``content``; text is compressed if that makes it smaller."""
        stored, encoding = content, ""
        if media_type == TEXT and len(smaller := zlib.compress(content, _LEVEL)) < len(content):
            stored, encoding = smaller, ZLIB
        return cls(digest(content), len(content), media_type, encoding, stored)


class BlobStore:
    """Reads and writes blobs. ``folder`` is a local path or an fsspec URL; None keeps all content in the database."""

    def __init__(self, folder: str | None, blob_root: BlobRoot | None = None) -> None:
        """``blob_root`` marks the folder and records it in the store; without it, the folder is used as it is.

        Raises:
            StoreError: the URL has an unknown protocol, or the package of its protocol is not installed; or the folder
                belongs to another store, or is not the folder that holds the store's blobs.
        """
        self.folder = folder
        self._blob_root = blob_root
        self._marked = False
        self._shown = without_secrets(folder or "")
        self.files: Folder | None = open_folder(folder) if folder is not None else None
        if blob_root is not None and self.files is not None:
            marker = self._read_marker()
            blob_root.verify(marker and marker[0], folder)
            self._marked = marker is not None

    def stage(self, new: NewBlob) -> NewBlob:
        """Return ``new``, without its bytes if it is large: they are then in the folder, synced. Repeatable.

        Raises:
            StoreFull: the disk is full.
            StoreError: the folder belongs to another store.
        """
        if new.stored is None or len(new.stored) <= INLINE_BYTES or self.files is None:
            return new
        with self._room_for(f"a blob of {len(new.stored):,} bytes"):
            self._mark(self.files)
            self.files.write(new.hash, new.stored)
        return replace(new, stored=None)

    def verify_owner(self) -> None:
        """Check that this database owns the files of the folder. Raises StoreError if it is a copy of the owner."""
        if self._blob_root is not None and self.folder is not None and (marker := self._read_marker()):
            self._blob_root.verify_owner(marker[1], self.folder)

    def share(self) -> BlobRoot | None:
        """Return the root with which processes on other hosts verify that they have the same folder.

        The folder gets its marker now, so that a process refuses a folder that only has the same path.

        Raises:
            StoreFull: the disk is full.
            StoreError: the folder belongs to another store.
        """
        if self._blob_root is None or self.files is None:
            return None
        with self._room_for(f"the file `{MARKER}`"):
            self._mark(self.files)
        return replace(self._blob_root, recorded=self.folder)

    def insert(self, conn: Connection, blobs: Mapping[str, NewBlob], now: datetime) -> None:
        """Insert the rows of ``blobs`` (by hash); an existing row stays as it is, with a new time if it is old.

        Raises:
            StoreFull: the disk is full.
        """
        if not blobs:
            return
        rows = []
        for name in sorted(blobs):
            staged = self.stage(blobs[name])
            rows.append(
                {
                    "hash": name,
                    "size": staged.size,
                    "media_type": staged.media_type,
                    "encoding": staged.encoding,
                    "location": IN_FOLDER if staged.stored is None else IN_DATABASE,
                    "data": staged.stored,
                    "created_at": now,
                }
            )
        if self._blob_root is not None and self.folder and any(row["location"] == IN_FOLDER for row in rows):
            self._blob_root.record(conn, self.folder)
        _renew_rows(conn, list(blobs), now)
        conn.execute(insert_once(conn.dialect.name, blob), rows)

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
        large: dict[str, str] = {}
        for row in among(conn, select(blob.c.hash, blob.c.data, blob.c.encoding, blob.c.location), blob.c.hash, wanted):
            if row.location == IN_FOLDER:
                large[row.hash] = row.encoding
            else:
                found[row.hash] = _decoded(row.data or b"", row.encoding)
        if large and self.files is None:
            raise BlobMissing(
                f"blob {next(iter(large))} is in a blob folder, but the store's URL names no blob folder: add "
                "`?blobs=FOLDER` to the URL"
            )
        if large and self.files is not None:
            found |= {name: _decoded(stored, large[name]) for name, stored in self.files.read(list(large)).items()}
        for name in wanted:
            if name not in found:
                raise BlobMissing(f"the store refers to blob {name} but does not hold it")
        return found

    @contextmanager
    def _room_for(self, content: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StoreFull(
                    f"no room for {content} in {self._shown}; committed writes are safe: free some space and run the "
                    "same command again"
                ) from error
            raise

    def _mark(self, files: Folder) -> None:
        """Write the marker into a folder without one, synced. Another store may do so at the same time: the marker
        that is there afterwards decides.
        """
        if self._blob_root is None or self._marked:
            return
        if self._read_marker() is None:
            content = f"{self._blob_root.store_id}\n{self._blob_root.owner(self.folder or '')}\n"
            files.write_top(MARKER, content.encode())
        marker = self._read_marker()
        self._blob_root.verify(marker and marker[0], self.folder)
        self._marked = True

    def _read_marker(self) -> tuple[str, str] | None:
        """Return the store's id and the owner in the marker of the folder; None without a folder or a marker."""
        if self.files is None:
            return None
        try:
            content = self.files.read_top(MARKER)
        except FileNotFoundError:
            return None
        except Exception as error:  # noqa: BLE001 - the libraries of remote folders raise errors of many types
            # The cause is dropped: it may quote a part of the URL.
            raise StoreError(
                f"the blob folder `{self._shown}` cannot be read: {without_secrets(str(error)) or type(error).__name__}"
                "; check its permissions, the network and the credentials"
            ) from None
        store_id, _, owner = content[:8192].decode(errors="replace").partition("\n")
        return store_id.strip(), owner.strip()

    def is_staged(self, name: str) -> bool:
        """Return whether the folder has the file of ``name``."""
        return self.files is not None and self.files.exists(name)


def _renew_rows(conn: Connection, names: list[str], now: datetime) -> None:
    """Renew the time of the existing rows among ``names``, so that no garbage collection deletes one before the rows
    that will refer to it are committed.
    """
    for start in range(0, len(names), KEYS_MAX):
        old = {"names": names[start : start + KEYS_MAX], "before": now - RENEWAL}
        conn.execute(_RENEW.values(created_at=now), old)


def check(name: str, data: bytes) -> None:
    """Raise BlobCorrupt if the hash of ``data`` is not ``name``."""
    if digest(data) != name:
        raise BlobCorrupt(f"blob {name} was altered: its content ({len(data):,} bytes) has another hash")


def _decoded(stored: bytes, encoding: str) -> bytes:
    """Return the content of stored bytes; what cannot be decompressed is returned as it is, and has another hash."""
    if encoding != ZLIB:
        return stored
    try:
        return inflate(stored)
    except ValueError:
        return stored
