"""Find every episode, reward and batch of a store that was altered or deleted, and rows that contradict each other.

A check reads one snapshot, in pieces of some hundred rows, and changes nothing. To add a check, write a generator of
findings and add it to ``CHECKS``; a condition between columns is a ``Rule``.
"""

from collections.abc import Iterator

from ...database import Database
from ...schema import (
    batch_group,
    batch_item,
    blob,
    message_image,
    partial_turn,
    reward,
    step,
    step_image,
    train_batch,
    trajectory,
)
from .. import Progress
from .contents import check_contents
from .digests import check_batches, check_rewards, check_trajectories
from .finding import Finding
from .references import check_counts, check_references
from .rules import check_rules

CHECKS = (check_rewards, check_batches, check_counts, check_references, check_rules)

__all__ = ["Finding", "check_store"]


def check_store(
    database: Database, *, content: bool = False, progress: Progress = lambda stage, done, total: None
) -> Iterator[Finding]:
    """Yield every finding, as the checks make them.

    Args:
        content: also read all blobs and compare them with their hashes.
        progress: receives stages and counts.
    """
    with database.read() as conn:
        for check in CHECKS:
            yield from _to_the_end(check.__name__, check(conn, progress))
        yield from _to_the_end(check_trajectories.__name__, check_trajectories(database, conn, progress))
        yield from _to_the_end(check_contents.__name__, check_contents(database, conn, progress, read=content))


def _to_the_end(name: str, found: Iterator[Finding]) -> Iterator[Finding]:
    """Yield what a check finds; SQLite holds values of any type, and one that cannot be read ends it with a finding."""
    try:
        yield from found
    except (TypeError, ValueError) as error:
        problem = f"a value is not of its column's type ({error}): the rest of this check was left out"
        yield Finding(name.removeprefix("check_"), "a row", "type", problem)


COVERED = (
    *(trajectory, step, partial_turn, step_image, message_image, reward),
    *(train_batch, batch_group, batch_item, blob),
)
"""The tables whose every change is found, except in the columns below, and in trajectories that still run or whose
group is open. Of the rows that a driver writes about a run, the checks find only the contradictions."""
_AT_THE_START = "its start wrote it, and its seal covers its end"
UNCOVERED_COLUMNS: dict[str, str] = {
    "blob.created_at": "a writer renews it, and only garbage collection reads it",
    "trajectory.ended_at": "the database's clock sets it once the seal is made",
    **{
        f"trajectory.{name}": _AT_THE_START
        for name in ("uid", "member", "attempt", "writer", "source", "policy", "deterministic", "created_at")
    },
    "trajectory.branched_at": _AT_THE_START,
}
"""The columns of these tables, by ``table.column``, whose change no check finds, with the reasons."""
UNCOVERED_EXCHANGES: dict[str, str] = {"trajectory.group_no": _AT_THE_START}
"""Likewise the columns in which the values of two rows may be exchanged."""
