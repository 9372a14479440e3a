"""All checks of a store, one after another."""

from collections.abc import Iterator

from ...database import Database
from .contents import check_contents
from .counts import check_counts
from .digests import check_batches, check_rewards, check_rows, check_trajectories
from .finding import Finding, Progress
from .messages import check_messages
from .references import check_references
from .rules import check_rules
from .vocabularies import check_vocabularies

CHECKS = (
    check_rows,
    check_trajectories,
    check_rewards,
    check_batches,
    check_counts,
    check_vocabularies,
    check_references,
    check_rules,
)


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
        yield from check_messages(database, conn, progress)
        yield from check_contents(database, conn, progress, read=content)
