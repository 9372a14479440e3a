"""A store with the history of run ``r``, and its groups as a replay buffer receives them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from turnwise.records import ScoredGroup
from turnwise.store.database import Database, open_database
from turnwise.store.queries import RunReader
from turnwise.tests.store.making import sqlite_store, start


@contextmanager
def replay_store(folder: Path) -> Iterator[tuple[Database, RunReader]]:
    """Yield a new SQLite store with run ``r`` and its first version, and the reader of that run."""
    database = open_database(sqlite_store(folder))
    start(database)
    yield database, RunReader("r", database)
    database.close()


def shown(groups: list[ScoredGroup]) -> dict[str, list[tuple[str, str]]]:
    """Return the members of each group, each with its source."""
    return {one.group.id: [(member.id, member.source.value) for member in one.group.trajectories] for one in groups}
