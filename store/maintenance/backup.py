"""A copy of an SQLite store before its schema changes."""

import sqlite3
from contextlib import closing
from pathlib import Path

from .. import migrate
from ..content.folders import sync
from ..database import revisions, sqlite_file
from ..errors import StoreFull
from . import Progress

_PAGES = 4096
"""Pages per step of a copy."""


def back_up_before_upgrade(url: str, progress: Progress) -> Path | None:
    """Copy the store at ``url`` if it is an SQLite file that an upgrade would change, and return the copy.

    Raises:
        StoreFull: the disk has no room for the copy.
        StoreError: the database cannot be opened.
    """
    path = sqlite_file(url)
    if path is None or not path.exists():
        return None
    revision, head = revisions(url)
    if revision is None or revision == head:
        return None
    migrate.refuse_unknown(revision, f"the store {path}")
    return back_up(path, revision, progress)


def back_up(path: Path, revision: str, progress: Progress) -> Path:
    """Copy the database file ``path`` next to it, named by ``revision``, and return the copy.

    The copy is synced before it gets its name; an earlier copy of the same name stays as it is.

    Raises:
        StoreFull: the disk has no room for the copy.
    """
    target = _free_name(path, revision)
    aside = target.with_name(f".{target.name}.partial")
    aside.unlink(missing_ok=True)
    try:
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(aside)) as copy:
            source.backup(
                copy, pages=_PAGES, progress=lambda _, left, total: progress("backup", total - left, total), sleep=0.05
            )
        sync(aside)
        aside.rename(target)
        sync(target.parent)
    except sqlite3.OperationalError as error:
        aside.unlink(missing_ok=True)
        if getattr(error, "sqlite_errorname", "") not in ("SQLITE_FULL", "SQLITE_IOERR_WRITE"):
            raise
        raise StoreFull(
            f"no room for a backup of {path.stat().st_size:,} bytes in `{path.parent}`; nothing was changed: free some "
            "space, or upgrade with `--no-backup`"
        ) from error
    return target


def _free_name(path: Path, revision: str) -> Path:
    """Return a name that no file has: ``turnwise.db.0003.backup``, then ``turnwise.db.0003.backup-2`` and so on."""
    first = path.with_name(f"{path.name}.{revision}.backup")
    number, name = 1, first
    while name.exists():
        number += 1
        name = first.with_name(f"{first.name}-{number}")
    return name
