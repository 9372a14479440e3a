"""The rows of a trajectory as they are stored: its turns with their messages and images, and their digests."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Table, select

from ...records import Message, Status
from ..errors import StepCorrupt
from ..schema import among, message_image, partial_turn, step, step_image
from .blobs import BlobStore
from .digests import content_digest, partial_turn_digest, seal, step_digest
from .message_codec import decode
from .rows import Tally, sampled_of

Row = dict[str, Any]
"""A row by column name: its columns are read often, and a dict answers faster than SQLAlchemy's mapping."""
TABLES: tuple[Table, ...] = (step, partial_turn, message_image, step_image)


class TurnRows(dict[Table, list[Row]]):
    """The rows of one trajectory by table of ``TABLES``, each in the order of its primary key."""

    @property
    def turns(self) -> list[tuple[Table, Row]]:
        """The steps, then the partial turns, each with its table."""
        return [(table, row) for table in (step, partial_turn) for row in self[table]]

    def images(self, table: Table) -> dict[int, list[Row]]:
        """Return the rows of ``step_image`` by step, or those of ``message_image`` by message."""
        column = "step_idx" if table is step_image else "message_idx"
        found: dict[int, list[Row]] = defaultdict(list)
        for row in self[table]:
            found[row[column]].append(row)
        return found

    def digests(self) -> Iterator[tuple[Table, Row, str]]:
        """Yield each step and partial turn with its table and the digest that it should have."""
        shown = self.images(step_image)
        for row in self[step]:
            yield step, row, step_digest(row, shown[row["idx"]])
        for row in self[partial_turn]:
            yield partial_turn, row, partial_turn_digest(row)

    def altered(self) -> Iterator[tuple[Table, Row]]:
        """Yield the steps and partial turns that differ from their digests, each with its table."""
        return ((table, row) for table, row, digest in self.digests() if row["digest"] != digest)

    def sealed(self) -> "TurnRows":
        """Return the rows with the digests that they should have."""
        made = TurnRows(self | {step: [], partial_turn: []})
        for table, row, digest in self.digests():
            made[table].append(row | {"digest": digest})
        return made

    def content_digest(self, final_images: Mapping[int, str] | None = None) -> str:
        """Return the content digest of rows that have their digests.

        Args:
            final_images: the hashes of the images of the end by ``idx``; None for those that are stored.
        """
        if final_images is None:
            final_images = {row["idx"]: row["blob_hash"] for row in self.images(step_image)[len(self[step])]}
        steps, partial = ({row["idx"]: row["digest"] for row in self[table]} for table in (step, partial_turn))
        return content_digest(steps, partial, self[message_image], final_images)

    def seal(self, head: Mapping[Any, Any]) -> str | None:
        """Return the seal that the trajectory of these rows and of the row ``head`` should have; None while it runs."""
        return None if head["status"] == Status.RUNNING.value else seal(head, self.content_digest())

    def tally(self, conn: Connection, blobs: BlobStore, final_images: Mapping[int, str]) -> Tally:
        """Return the tally of the turns.

        Raises:
            StepCorrupt: the messages of a turn cannot be read.
            BlobMissing: they are missing.
        """
        contents = contents_of(conn, blobs, (row for _, row in self.turns))
        n_tokens, versions = sampled_of([one for _, row in self.turns for one in messages_of(row, contents)])
        lowest, highest = min(versions, default=None), max(versions, default=None)
        digest = self.content_digest(final_images)
        return Tally(len(self[step]), len(self[partial_turn]), n_tokens, lowest, highest, digest)


def turn_rows(conn: Connection, nos: Iterable[int]) -> dict[int, TurnRows]:
    """Return the rows of trajectories, by ``no``."""
    found = {no: TurnRows({table: [] for table in TABLES}) for no in nos}
    for table in TABLES:
        for row in rows_with(conn, select(table).order_by(*table.primary_key), table.c.trajectory_no, found):
            found[row["trajectory_no"]][table].append(row)
    return found


def rows_with(conn: Connection, statement: Any, column: Any, keys: Iterable[Any]) -> list[Row]:
    """Return the rows of a statement that have one of ``keys`` in ``column``."""
    rows = among(conn, statement, column, keys)
    names = rows[0]._fields if rows else ()
    return [dict(zip(names, row, strict=True)) for row in rows]


def messages_of(
    row: Mapping[Any, Any], contents: Mapping[str, bytes], images: Mapping[int, Sequence[str]] | None = None
) -> list[Message]:
    """Return the messages of a turn, by its row; none if retention removed them.

    Args:
        contents: the content of the blob that the row names, if it names one.
        images: the blob hashes of the images by message index.

    Raises:
        StepCorrupt: the messages cannot be read.
    """
    data = row["messages"] if row["messages_blob"] is None else contents[row["messages_blob"]]
    if data is None:
        return []
    try:
        return decode(data, images or {})
    except ValueError as error:
        raise StepCorrupt(f"the messages of turn {row['idx']} cannot be read: {error}", row["idx"]) from error


def contents_of(conn: Connection, blobs: BlobStore, rows: Iterable[Row]) -> dict[str, bytes]:
    """Return the long messages of rows, by the names of their blobs. Raises BlobMissing."""
    return blobs.get_unchecked(conn, {row["messages_blob"] for row in rows if row["messages_blob"] is not None})
