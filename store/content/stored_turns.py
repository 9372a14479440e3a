"""The turns of a trajectory as they are stored: rows of ``step`` and ``partial_turn``, with their messages."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, select

from ...records import Message
from ..errors import StepCorrupt
from ..schema import message_image, partial_turn, step
from .blobs import BlobStore
from .digests import content_digest
from .message_codec import decode
from .rows import sampled_of
from .written import Tally

Row = Mapping[Any, Any]
_TURNS = tuple(
    select(*(table.c[name] for name in ("trajectory_no", "idx", "digest", "messages", "messages_blob")))
    .where(table.c.trajectory_no.in_(bindparam("nos", expanding=True)))
    .order_by(table.c.trajectory_no, table.c.idx)
    for table in (step, partial_turn)
)
_IMAGES = (
    select(message_image)
    .where(message_image.c.trajectory_no == bindparam("key"))
    .order_by(message_image.c.message_idx, message_image.c.idx)
)


def messages_of(
    row: Row, contents: Mapping[str, bytes], images: Mapping[int, Sequence[str]] | None = None
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


def turns_of(conn: Connection, nos: Sequence[int]) -> tuple[dict[int, list[Row]], dict[int, list[Row]]]:
    """Return the rows of the steps and of the partial turns of trajectories, by ``no``: the columns of ``_TURNS``."""
    found: tuple[dict[int, list[Row]], dict[int, list[Row]]] = (defaultdict(list), defaultdict(list))
    for rows, which in zip(found, _TURNS, strict=True):
        for row in conn.execute(which, {"nos": list(nos)}).mappings():
            rows[row["trajectory_no"]].append(row)
    return found


def contents_of(conn: Connection, blobs: BlobStore, rows: Iterable[Row]) -> dict[str, bytes]:
    """Return the long messages of rows, by the names of their blobs. Raises BlobMissing."""
    return blobs.get_unchecked(conn, {row["messages_blob"] for row in rows if row["messages_blob"] is not None})


def stored_tally(conn: Connection, blobs: BlobStore, no: int, final_images: Sequence[str]) -> Tally:
    """Return the tally of the stored turns of trajectory ``no``.

    Raises:
        StepCorrupt: the messages of a turn cannot be read.
        BlobMissing: they are missing.
    """
    steps, partial = (rows[no] for rows in turns_of(conn, [no]))
    contents = contents_of(conn, blobs, (*steps, *partial))
    n_tokens, versions = sampled_of([one for row in (*steps, *partial) for one in messages_of(row, contents)])
    of_steps, of_partial = ({row["idx"]: row["digest"] for row in rows} for rows in (steps, partial))
    images = conn.execute(_IMAGES, {"key": no}).mappings()
    return Tally(
        len(steps),
        len(partial),
        n_tokens,
        min(versions, default=None),
        max(versions, default=None),
        content_digest(of_steps, of_partial, images, final_images),
    )
