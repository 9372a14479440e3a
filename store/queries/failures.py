"""The failures of a run in clusters: by status and similar message, with counts and examples."""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, func, select, type_coerce

from ..schema import FAILED, trajectory
from ..schema.types import ExactText
from .conditions import of_run
from .run_details import DROPPED

READ_MAX = 20_000
"""Failures whose messages are read, the newest first."""
EXAMPLES = 3
TAIL_CHARS = 2_000
"""Characters of a message in which its last line is looked for."""
MESSAGE_CHARS = 300
_VARIABLE = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-fA-F]{12,}\b|\d+(?:[.:]\d+)*")
"""Parts in which similar messages differ: addresses, hashes and numbers."""


@dataclass(frozen=True, slots=True)
class FailureCluster:
    """Failed trajectories of one status with similar messages."""

    status: str
    message: str
    """The last line of the newest message."""
    count: int
    environments: Sequence[str]
    examples: Sequence[str]
    """Ids of at most ``EXAMPLES`` trajectories, the newest first."""


@dataclass(frozen=True, slots=True)
class Failures:
    """The failures of a run."""

    total: int
    read: int
    """The newest of them, which the clusters count."""
    clusters: Sequence[FailureCluster]


@dataclass(slots=True)
class _Found:
    message: str
    count: int
    environments: set[str]
    examples: list[str]


def failure_clusters(conn: Connection, run: str) -> Failures:
    """Return the failures of a run, for training and evaluation, retried ones included; the largest cluster first.

    Messages are similar if their last lines differ only in numbers, addresses and hashes.
    """
    which = of_run(trajectory, run), FAILED, ~DROPPED
    total = conn.execute(select(func.count()).select_from(trajectory).where(*which)).scalar_one()
    start = func.length(trajectory.c.error) - TAIL_CHARS + 1
    tail = type_coerce(func.substr(trajectory.c.error, start), ExactText)
    newest = (
        select(trajectory.c.status, tail, trajectory.c.env_id, trajectory.c.id)
        .where(*which)
        .order_by(trajectory.c.no.desc())
        .limit(READ_MAX)
    )
    found: dict[tuple[str, str], _Found] = {}
    for status, error, environment, name in conn.execute(newest):
        line = (error.strip().splitlines() or [""])[-1].strip()[:MESSAGE_CHARS]
        cluster = found.setdefault((status, _VARIABLE.sub("#", line)), _Found(line, 0, set(), []))
        cluster.count += 1
        cluster.environments.add(environment)
        if cluster.count <= EXAMPLES:
            cluster.examples.append(name)
    clusters = [
        FailureCluster(status, one.message, one.count, sorted(one.environments), one.examples)
        for (status, _), one in found.items()
    ]
    return Failures(total, min(total, READ_MAX), sorted(clusters, key=lambda one: -one.count))


def failures_per_update(
    conn: Connection, run: str, times: Mapping[int, datetime], since: datetime | None = None
) -> dict[int, dict[str, int]]:
    """Return the failures of a run between updates by status, retried ones included, by the update that follows them.

    Args:
        times: when each update was recorded, in ascending order.
        since: only failures after this moment.
    """
    if not times:
        return {}
    updates, moments = list(times), list(times.values())
    which = [of_run(trajectory, run), FAILED, ~DROPPED, trajectory.c.ended_at <= moments[-1]]
    if since is not None:
        which.append(trajectory.c.ended_at > since)
    found: dict[int, dict[str, int]] = defaultdict(dict)
    for status, ended_at in conn.execute(select(trajectory.c.status, trajectory.c.ended_at).where(*which)):
        counts = found[updates[bisect_left(moments, ended_at)]]
        counts[status] = counts.get(status, 0) + 1
    return found
