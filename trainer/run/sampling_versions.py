"""The versions that sampled the tokens of a batch: those of the other run if the run is offline.

The number of updates between the versions of two runs is not defined. For the staleness, a version of the other run is
one from before the first version of this run.
"""

from dataclasses import replace

from sqlalchemy import Connection

from ...records import PolicyVersion
from ...store import queries

UPDATE_OF_OTHER_RUN = -1
"""Update number of the versions of the other run: before the first version of this run."""


def sampling_versions(conn: Connection, run: str) -> dict[int, PolicyVersion]:
    """Return the versions, by id, that sampled what ``run`` trains on, with the update numbers for the staleness.

    Raises:
        NotFound: the run is not in the store.
    """
    other = queries.find_run(conn, run).config.get("offline", {}).get("run")
    if other is None:
        return queries.versions(conn, run)
    return {id: replace(one, update=UPDATE_OF_OTHER_RUN) for id, one in queries.versions(conn, other).items()}
