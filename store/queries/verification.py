"""Compare the stored rows of a trajectory with their digests, and long content with the hash that names it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..content.blobs import check
from ..content.digests import content_digest, partial_turn_digest, step_digest
from ..content.head_digest import head_digest
from ..errors import BlobCorrupt, StepCorrupt

Row = Mapping[Any, Any]


def verify_rows(
    head: Row, steps: Sequence[Row], partial: Sequence[Row], message_images: Sequence[Row], step_images: Sequence[Row]
) -> None:
    """Check that the rows of a trajectory are those that were written.

    ``head`` is a row of ``queries.load.HEADS``. A running trajectory has no content digest yet; a pruned one lacks
    content, so only its head is checked.

    Raises:
        StepCorrupt: a row was altered, exchanged, added or deleted; ``step`` is the index of its step (the number of
            steps: the trajectory itself).
    """
    name, end = head["id"], len(steps)
    if head["pruned_at"] is None:
        pictures = _by(step_images, "step_idx")
        for row in steps:
            if step_digest(row, pictures[row["idx"]]) != row["digest"]:
                raise StepCorrupt(f"trajectory {name}{_at(row['idx'])}: the step was altered", row["idx"])
        if any(partial_turn_digest(row) != row["digest"] for row in partial):
            raise StepCorrupt(f"trajectory {name}: the messages after the last step were altered", end)
        if head["content_digest"] is not None:
            whole = content_digest(
                {row["idx"]: row["digest"] for row in steps},
                {row["idx"]: row["digest"] for row in partial},
                message_images,
                [image["blob_hash"] for image in pictures[end]],
            )
            if whole != head["content_digest"]:
                raise StepCorrupt(
                    f"trajectory {name}: a step, message or image was altered, exchanged, added or deleted", end
                )
    if head_digest(head) != head["digest"]:
        raise StepCorrupt(f"trajectory {name}: a column of `trajectory` or of its group was altered", end)


def verify_content(
    trajectory: str, steps: Sequence[Row], partial: Iterable[Row], contents: Mapping[str, bytes]
) -> None:
    """Check that each long content has the hash that names it; contents that were not loaded are not checked.

    Raises:
        StepCorrupt: a content was altered; ``step`` is the index of its step.
    """
    owners = [(row["idx"], "observation", row["observation_blob"]) for row in steps]
    owners += [(row["idx"], "messages", row["messages_blob"]) for row in steps]
    end = len(steps)
    owners += [(end, "messages after the last step", row["messages_blob"]) for row in partial]
    for turn, what, blob in owners:
        if blob is None or blob not in contents:
            continue
        try:
            check(blob, contents[blob])
        except BlobCorrupt as error:
            were = "was" if what == "observation" else "were"
            raise StepCorrupt(
                f"trajectory {trajectory}{_at(turn)}: the {what} {were} altered (blob {blob} has another hash)", turn
            ) from error


def _at(turn: int) -> str:
    return f", step {turn}"


def _by(images: Iterable[Row], column: str) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = defaultdict(list)
    for image in images:
        found[image[column]].append(image)
    return found
