"""Compare the stored rows of a trajectory with their digests, and long content with the hash that names it."""

from collections.abc import Mapping
from typing import Any

from ..content.blobs import check
from ..content.digests import head_digest
from ..content.turn_rows import TurnRows
from ..errors import BlobCorrupt, StepCorrupt
from ..schema import step


def verify_rows(head: Mapping[Any, Any], rows: TurnRows) -> None:
    """Check that the rows of a trajectory are those that were written.

    ``head`` is a row of ``queries.load.HEADS``. A running trajectory has no content digest yet; a pruned one lacks
    content, so only its head is checked.

    Raises:
        StepCorrupt: a row was altered, exchanged, added or deleted; ``step`` is the index of its step (the number of
            steps: the trajectory itself).
    """
    name, end = head["id"], len(rows[step])
    if head["pruned_at"] is None:
        for table, row in rows.altered():
            if table is step:
                raise StepCorrupt(f"trajectory {name}{_at(row['idx'])}: the step was altered", row["idx"])
            raise StepCorrupt(f"trajectory {name}: the messages after the last step were altered", end)
        if head["content_digest"] not in (None, rows.content_digest()):
            raise StepCorrupt(
                f"trajectory {name}: a step, message or image was altered, exchanged, added or deleted", end
            )
    if head_digest(head) != head["digest"]:
        raise StepCorrupt(f"trajectory {name}: a column of `trajectory` or of its group was altered", end)


def verify_content(trajectory: str, rows: TurnRows, contents: Mapping[str, bytes]) -> None:
    """Check that each long content has the hash that names it; contents that were not loaded are not checked.

    Raises:
        StepCorrupt: a content was altered; ``step`` is the index of its step.
    """
    steps = rows[step]
    owners = [(row["idx"], "observation was", row["observation_blob"]) for row in steps]
    owners += [(row["idx"], "messages were", row["messages_blob"]) for row in steps]
    owners += [
        (len(steps), "messages after the last step were", row["messages_blob"])
        for table, row in rows.turns
        if table is not step
    ]
    for turn, what, blob in owners:
        if blob is None or blob not in contents:
            continue
        try:
            check(blob, contents[blob])
        except BlobCorrupt as error:
            raise StepCorrupt(
                f"trajectory {trajectory}{_at(turn)}: the {what} altered (blob {blob} has another hash)", turn
            ) from error


def _at(turn: int) -> str:
    return f", step {turn}"
