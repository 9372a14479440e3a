"""The settings of a store: its id, and the blob folder that it remembers, with the marker file.

``store_setting`` holds ``store_id``, made with the tables, and ``blob_root``, recorded in the transaction that inserts
the first blob with a file. The marker holds ``store_id``; it is in the folder before the folder's first blob. Each open
compares the two, so that neither another store's folder nor an unmounted one is used.

A copy of the database, such as a backup, has the same ``store_id`` and reads the same folder. The second line of the
marker therefore names the database that owns the folder: no other one deletes its files.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, select, text, update

from ...base.masking import without_secrets
from ..errors import StoreError
from ..schema import insert_once, store_setting
from ..schema.types import uuid7

STORE_ID, BLOB_ROOT, SEARCH_INDEX = "store_id", "blob_root", "search_index"
NAMES = (STORE_ID, BLOB_ROOT, SEARCH_INDEX)
MARKER = "turnwise-store"
"""Name of the marker file; its lines are the ``store_id`` of its store and the owner (``BlobRoot.owner``)."""
SUFFIX = ".blobs"
"""The blob folder of an SQLite store has the name of the file with this suffix: a folder may hold several stores."""
_DATABASE = "SELECT datname || ' ' || oid FROM pg_database WHERE datname = current_database()"
_NAME_IT = "`?blobs=FOLDER` in the URL of the store or in the variable `TURNWISE_BLOBS`"


@dataclass(frozen=True, slots=True)
class BlobRoot:
    """What one store has recorded about its blob folder."""

    store_id: str
    """32 hex digits."""
    recorded: str | None
    """The folder or URL, without secrets, relative to the SQLite file if possible; None without a blob in a file."""
    file: Path | None
    """The SQLite file; None on PostgreSQL."""
    database: str = ""
    """Name and number of the PostgreSQL database; a copy has another number."""

    def folder(self, named: str | None) -> str | None:
        """Return the folder to use: the one that the user ``named``, else the recorded one, else the default.

        Raises:
            StoreError: the recorded URL had credentials, and the user named none.
        """
        if named:
            return named
        if self.recorded is not None and "://" in self.recorded:
            if "***" not in self.recorded:
                return self.recorded
            raise StoreError(
                f"the blob folder `{self.recorded}` needs credentials, which the store does not keep: "
                f"write its complete URL in {_NAME_IT}"
            )
        folder = self.recorded or (_default(self.file) if self.file else None)
        return folder if folder is None or self.file is None else str(self.file.parent / folder)

    def verify(self, marker: str | None, folder: str | None) -> None:
        """Check the marker that ``folder`` has (None: it has none).

        Raises:
            StoreError: the marker names another store, or is missing although the store has blobs in files.
        """
        shown = without_secrets(folder or "")
        if marker is None and self.recorded is not None:
            raise StoreError(
                f"the blob folder `{shown}` lacks the file `{MARKER}` of this store: it was moved, deleted or is not "
                f"mounted; restore it, or name its new place with {_NAME_IT}; if its content is lost, write the line "
                f"{self.store_id} into that file to open the store without it"
            )
        if marker is not None and marker != self.store_id:
            raise StoreError(
                f"the blob folder `{shown}` belongs to another store: its file `{MARKER}` names the store "
                f"{marker[:32]}, not {self.store_id}; name this store's folder with {_NAME_IT}"
            )

    def owner(self, folder: str) -> str:
        """Return the name of this database, which no copy of it has: for an SQLite file, its path seen from ``folder``,
        so that the two may move together.
        """
        if self.file is None:
            return self.database
        if "://" in folder and not folder.startswith("file://"):
            return str(self.file.resolve())
        return os.path.relpath(self.file.resolve(), Path(folder.removeprefix("file://")).resolve())

    def verify_owner(self, owner: str, folder: str) -> None:
        """Check the ``owner`` that the marker of ``folder`` names, before files are deleted; an empty one passes.

        Raises:
            StoreError: another database owns the folder.
        """
        own = self.owner(folder)
        if owner and owner != own:
            raise StoreError(
                f"the files of the blob folder `{without_secrets(folder)}` belong to the database `{owner}`, and this "
                f"is `{own}`: a copy of it, which deletes none of them. If the database was moved or renamed, write "
                f"`{own}` into the second line of the file `{MARKER}` in that folder"
            )

    def record(self, conn: Connection, folder: str) -> None:
        """Record ``folder``, which has this store's marker, in the transaction of ``conn``."""
        root = self._address(folder)
        if root == self.recorded:
            return
        found = setting(conn, BLOB_ROOT)
        if found is None:
            add_setting(conn, BLOB_ROOT, root)
        elif found != root:
            change_setting(conn, BLOB_ROOT, root)

    def _address(self, folder: str) -> str:
        if "://" in folder and not folder.startswith("file://"):
            return without_secrets(folder)
        path = Path(folder.removeprefix("file://")).resolve()
        near = self.file.parent.resolve() if self.file else None
        return str(path.relative_to(near) if near and path.is_relative_to(near) else path)


def make_settings(conn: Connection) -> None:
    """Give the store its id, which it keeps from then on."""
    add_setting(conn, STORE_ID, uuid7().hex)


def read_blob_root(conn: Connection, file: Path | None) -> BlobRoot:
    """Return what the store has recorded; ``file`` is that of an SQLite store.

    Raises:
        StoreError: the store has no id.
    """
    store_id = setting(conn, STORE_ID)
    if store_id is None:
        raise StoreError(
            f"the table `store_setting` lacks `{STORE_ID}`: run `turnwise db upgrade` with the same `--store`"
        )
    own = "" if file else conn.execute(text(_DATABASE)).scalar_one()
    return BlobRoot(store_id, setting(conn, BLOB_ROOT), file, own)


def _default(file: Path) -> str:
    """Return the name of the folder next to an SQLite file: ``NAME.blobs`` for ``NAME.db``. Another suffix stays in the
    name, so that two files that differ in it alone have two folders.
    """
    return (file.stem if file.suffix == ".db" else file.name) + SUFFIX


def setting(conn: Connection, name: str, *, lock: bool = False) -> str | None:
    """Return the value of a setting; None if the store has none. With ``lock``, no other writer changes it."""
    which = select(store_setting.c.value).where(store_setting.c.name == name)
    value: str | None = conn.execute(which.with_for_update() if lock else which).scalar_one_or_none()
    return value


def add_setting(conn: Connection, name: str, value: str) -> bool:
    """Add a setting, and return whether it was missing; an existing one stays as it is."""
    added = insert_once(conn.dialect.name, store_setting)
    return bool(conn.execute(added, {"name": name, "value": value}).rowcount)


def change_setting(conn: Connection, name: str, value: str) -> None:
    """Change the value of a setting that the store has."""
    conn.execute(update(store_setting).where(store_setting.c.name == name).values(value=value))
