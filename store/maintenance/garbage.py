"""Delete the content that no row refers to: first rows of ``blob``, then files without a row.

Marking is a probe per blob and referring column, each by an index. Content stays for a grace period after its last
write, because a writer stages content before the row that names it. A writer that finds its content stored already
renews that time: ``blob.created_at``, and the file's time of modification.

* The statement that deletes a row also probes for references. Its file is deleted after the commit; a process that
  dies in between leaves a file without a row, which the next sweep deletes.
* A file is renamed before it is deleted, and renamed back if a writer renewed it meanwhile. A process that dies in
  between leaves the renamed file, which the next sweep restores if its row exists.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import Column, ColumnElement, and_, bindparam, delete, exists, select

from ..content.folders import BlobFile, Folder
from ..database import Database
from ..schema import blob, metadata

REFERENCES: tuple[Column[Any], ...] = tuple(
    column
    for table in metadata.sorted_tables
    for column in table.c
    if column.name == "blob_hash" or column.name.endswith("_blob")
)
"""Every column that names content."""

T = TypeVar("T")
_CHUNK = 500


@dataclass(slots=True)
class Swept:
    """What a sweep deleted, or would delete."""

    blobs: int = 0
    """Rows of ``blob``."""
    files: int = 0
    bytes: int = 0
    """Bytes of content in the deleted rows and files."""

    def add(self, other: "Swept") -> None:
        """Add the counts of ``other``."""
        self.blobs += other.blobs
        self.files += other.files
        self.bytes += other.bytes


def is_unreferenced() -> ColumnElement[bool]:
    """Return the condition on a row of ``blob`` that no column of ``REFERENCES`` names it."""
    return and_(*(~exists(select(1).where(column == blob.c.hash).correlate(blob)) for column in REFERENCES))


_NEXT = (
    select(blob.c.hash, blob.c.created_at).where(blob.c.hash > bindparam("after")).order_by(blob.c.hash).limit(_CHUNK)
)
_IN = blob.c.hash.in_(bindparam("names", expanding=True))
_GARBAGE = (_IN, blob.c.created_at < bindparam("before"), is_unreferenced())
_COLUMNS = (blob.c.hash, blob.c.size, blob.c.data.is_(None))
_EXISTING = select(blob.c.hash).where(_IN)


def sweep(
    database: Database, before: datetime, *, dry_run: bool = False, progress: Callable[[int], None] = lambda _: None
) -> Swept:
    """Delete the unreferenced content that was last written before ``before``.

    Args:
        dry_run: count only.
        progress: receives the number of examined rows and files.

    Raises:
        StoreError: another database owns the blob folder; nothing was deleted.
    """
    database.blobs.verify_owner()
    swept = Swept()
    examined = 0
    for names in _rows(database, before):
        swept.add(sweep_rows(database, names, before, dry_run=dry_run))
        progress(examined := examined + _CHUNK)
    if (folder := database.blobs.files) is not None:
        for files in chunked(folder.files(), _CHUNK):
            swept.add(_sweep_files(database, folder, files, before, dry_run=dry_run))
            progress(examined := examined + len(files))
    return swept


def sweep_rows(database: Database, names: Iterable[str], before: datetime, *, dry_run: bool = False) -> Swept:
    """Delete those rows of ``blob`` among ``names`` that nothing refers to; ``before`` and ``dry_run`` as in ``sweep``.

    The bytes of content in files are counted when the files are deleted.
    """
    swept = Swept()
    for chunk in chunked(sorted(set(names)), _CHUNK):
        arguments = {"names": chunk, "before": before}
        if dry_run:
            with database.read() as conn:
                gone = conn.execute(select(*_COLUMNS).where(*_GARBAGE), arguments).all()
        else:
            with database.transaction() as tx:
                gone = tx.conn.execute(delete(blob).where(*_GARBAGE).returning(*_COLUMNS), arguments).all()
        swept.blobs += len(gone)
        swept.bytes += sum(size for _, size, is_file in gone if dry_run or not is_file)
    return swept


def _rows(database: Database, before: datetime) -> Iterator[list[str]]:
    """Yield the names of the rows that were last written before ``before``, some hundred at a time."""
    after = ""
    while True:
        with database.read() as conn:
            rows = conn.execute(_NEXT, {"after": after}).all()
        if not rows:
            return
        after = rows[-1].hash
        if old := [row.hash for row in rows if row.created_at < before]:
            yield old


def _sweep_files(
    database: Database, folder: Folder, files: Iterable[BlobFile], before: datetime, *, dry_run: bool
) -> Swept:
    """Delete the old ``files`` without a row, and restore the removed ones that have a row."""
    with database.read() as conn:
        existing = set(conn.execute(_EXISTING, {"names": [file.name for file in files]}).scalars())
    swept = Swept()
    for file in files:
        if file.name in existing and not file.is_partial:
            if file.is_removed and not dry_run:
                folder.restore(file)
        elif file.modified < before and (dry_run or folder.remove(file, before)):
            swept.files += 1
            swept.bytes += file.size
    return swept


def chunked(values: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the values in lists of at most ``size``, so that a long sequence is never in memory at once."""
    left = iter(values)
    while chunk := list(islice(left, size)):
        yield chunk
