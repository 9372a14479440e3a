"""The failures of a run in clusters, and the groups that no update trained on by reason."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....store import queries
from ....store.database import Database
from ....store.queries.failures import FailureCluster
from ....store.queries.run_details import FilteredGroups
from ..given import Given


@dataclass(frozen=True, slots=True)
class FailuresPage:
    """The failures of a run."""

    run: str
    clusters: Sequence[FailureCluster]
    total: int
    """Failed trajectories, retried ones included."""
    read: int
    """The newest of them, which the clusters count."""
    accounting: Mapping[str, int]
    filtered: Sequence[FilteredGroups]


def load_failures(database: Database, given: Given) -> FailuresPage:
    """Return the failures of a run."""
    run = given.path["run"]
    with database.read() as conn:
        queries.find_run(conn, run)
        failures = queries.failure_clusters(conn, run)
        accounting, filtered = queries.accounting(conn, run), queries.filtered_groups(conn, run)
    return FailuresPage(run, failures.clusters, failures.total, failures.read, accounting, filtered)
