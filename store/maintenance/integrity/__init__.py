"""Find every row of a store that was altered, exchanged or deleted, or that contradicts another.

A check reads one snapshot, in pieces of some hundred rows, and changes nothing. To add a check, write a generator of
findings and add it to ``CHECKS``; a condition between columns is a ``Rule``.
"""

from collections.abc import Iterator

from ...database import Database
from .. import Progress
from .contents import check_contents
from .digests import check_batches, check_rewards, check_rows, check_trajectories
from .finding import Finding
from .references import check_counts, check_references
from .rules import check_rules

CHECKS = (check_rows, check_rewards, check_batches, check_counts, check_references, check_rules)

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
            yield from check(conn, progress)
        yield from check_trajectories(database, conn, progress)
        yield from check_contents(database, conn, progress, read=content)


UNCOVERED_COLUMNS: dict[str, str] = {
    "blob.created_at": "a writer renews it, and only garbage collection reads it",
    "rollout_group.no": "that of an open group without members, to which no other row refers yet",
    "trajectory.no": "that of a running trajectory without turns, to which no other row refers yet",
}
"""The columns, by ``table.column``, whose change no check finds, with the reasons. A test holds both lists."""
UNCOVERED_ROWS: dict[str, str] = {
    "trajectory deleted": "a running one without turns: it holds nothing yet. The trajectories of a group are counted "
    "when the group closes, because a count at each start would make all workers wait for one row",
    "step deleted": "the last turn of a running trajectory: its turns are counted at its end, and a power failure may "
    "take the newest ones",
}
"""Likewise the changes of whole rows, by table and change."""
