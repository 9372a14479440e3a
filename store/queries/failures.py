"""The failures of a run in clusters: by status and similar message, with counts and examples."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from ..schema import no_of, trajectory
from ..schema import run as run_table
from .run_details import DROPPED, NO_FAILURES

MESSAGES_MAX = 2_000
"""Different messages that are read, the most frequent first."""
EXAMPLES = 3
MESSAGE_CHARS = 300
_VARIABLE = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-fA-F]{12,}\b|\d+(?:[.:]\d+)*")
"""Parts in which similar messages differ: addresses, hashes and numbers."""


@dataclass(frozen=True, slots=True)
class FailureCluster:
    """Failed trajectories of one status with similar messages."""

    status: str
    message: str
    """The last line of the most frequent message."""
    count: int
    environments: Sequence[str]
    examples: Sequence[str]
    """Ids of at most ``EXAMPLES`` trajectories."""


def failure_clusters(conn: Connection, run: str) -> list[FailureCluster]:
    """Return the failures of a run, for training and evaluation, retried ones included; the largest cluster first.

    Messages are similar if their last lines differ only in numbers, addresses and hashes.
    """
    columns = trajectory.c.status, trajectory.c.error, trajectory.c.env_id
    count = func.count().label("failures")
    which = (
        select(*columns, count, func.max(trajectory.c.id).label("example"))
        .where(trajectory.c.run_no == no_of(run_table, run), trajectory.c.status.not_in(NO_FAILURES), ~DROPPED)
        .group_by(*columns)
        .order_by(count.desc(), *columns)
        .limit(MESSAGES_MAX)
    )
    found: dict[tuple[str, str], FailureCluster] = {}
    for row in conn.execute(which):
        line = (row.error.strip().splitlines() or [""])[-1].strip()[:MESSAGE_CHARS]
        key = row.status, _VARIABLE.sub("#", line)
        known = found.get(key, FailureCluster(row.status, line, 0, [], []))
        found[key] = FailureCluster(
            known.status,
            known.message,
            known.count + row.failures,
            sorted({*known.environments, row.env_id}),
            [*known.examples, row.example][:EXAMPLES],
        )
    return sorted(found.values(), key=lambda one: -one.count)
