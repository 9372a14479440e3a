"""The versions that sampled what a run trains on: its own, or those of the run whose groups it trains on."""

from dataclasses import replace

from sqlalchemy import Connection

from ....records import PolicyVersion
from ....store import queries

UPDATE_OF_OTHER_RUN = -1
"""Update number of the versions of the other run: before the first version of this run."""


def sampling_versions(conn: Connection, run: str) -> dict[int, PolicyVersion]:
    """Return the versions, by id, that sampled what ``run`` trains on, with the update numbers for the staleness.

    The number of updates between the versions of two runs is not defined. For the staleness, a version of the other run
    of an offline run is one from before the first version of this run.

    Raises:
        NotFound: the run is not in the store.
    """
    other = queries.find_run(conn, run).config.get("offline", {}).get("run")
    if other is None:
        return queries.versions(conn, run)
    return {id: replace(one, update=UPDATE_OF_OTHER_RUN) for id, one in queries.versions(conn, other).items()}
