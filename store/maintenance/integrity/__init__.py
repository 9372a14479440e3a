"""Find every row of a store that was altered, exchanged or deleted, or that contradicts another.

A check reads one snapshot, in pieces of some hundred rows, and changes nothing. To add a check, write a generator of
findings and add it to ``CHECKS``; a condition between columns is a ``Rule``.
"""

from collections.abc import Iterator

from ...database import Database
from .contents import check_contents
from .counts import check_counts
from .digests import check_batches, check_rewards, check_rows
from .finding import Finding, Progress
from .references import check_references
from .rules import check_rules
from .trajectories import check_trajectories

CHECKS = (
    check_rows,
    check_rewards,
    check_batches,
    check_counts,
    check_references,
    check_rules,
)

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
