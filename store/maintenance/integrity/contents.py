"""Blobs against their content: the sizes, the files of the folder, and on demand the hash of every byte."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, Row, func, select

from ...content.blobs import IN_DATABASE, IN_FOLDER, check
from ...database import Database
from ...errors import BlobCorrupt, BlobMissing
from ...schema import blob
from .. import Progress
from ..garbage import chunked
from .finding import Finding, streamed

_CHUNK = 50
"""Blobs whose content is in memory at once."""


def check_contents(database: Database, conn: Connection, progress: Progress, *, read: bool) -> Iterator[Finding]:
    """Yield a finding per blob whose row or content is wrong.

    Args:
        read: read all content and compare it with its hash; else only see that it exists.
    """
    total = conn.execute(select(func.count()).select_from(blob)).scalar_one()
    columns = select(
        blob.c.hash, blob.c.size, blob.c.encoding, blob.c.location, func.length(blob.c.data).label("stored")
    ).order_by(blob.c.hash)
    for done, rows in enumerate(chunked(streamed(conn, columns), _CHUNK)):
        progress("content", done * _CHUNK, total)
        for row in rows:
            yield from _row_findings(database, row)
        if read:
            yield from _content_findings(database, conn, rows)


def _finding(row: Row[Any], field: str, problem: str) -> Finding:
    return Finding("blob", f"hash={row.hash}", field, problem)


def _row_findings(database: Database, row: Row[Any]) -> Iterator[Finding]:
    if row.location == IN_DATABASE and row.stored is None:
        yield _finding(row, "data", "is missing, although the location is the database")
    elif row.location == IN_DATABASE and not row.encoding and row.stored != row.size:
        yield _finding(row, "size", f"is {row.size:,} bytes, but {row.stored:,} are stored")
    elif row.location == IN_FOLDER and row.stored is not None:
        yield _finding(row, "location", "is the folder, although the row has the content")
    elif row.location == IN_FOLDER and not database.blobs.is_staged(row.hash):
        yield _finding(row, "location", "is the folder, which lacks the file: restore it from a copy of the folder")


def _content_findings(database: Database, conn: Connection, rows: list[Row[Any]]) -> Iterator[Finding]:
    for row in rows:
        try:
            content = database.blobs.get_unchecked(conn, [row.hash])[row.hash]
            check(row.hash, content)
        except BlobMissing:
            continue
        except BlobCorrupt as error:
            yield _finding(row, "data", str(error))
        else:
            if len(content) != row.size:
                yield _finding(row, "size", f"is {row.size:,} bytes, but the content has {len(content):,}")
