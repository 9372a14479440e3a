"""Reads of a large store are fast; ``test_plans`` checks that they use an index."""

import time
from typing import Any

import pytest
from turnwise.records import GroupState, Status
from turnwise.store import operations
from turnwise.store.database import Database
from turnwise.store.operations.steps import Append, append
from turnwise.store.queries import list_trajectories, load_trajectory
from turnwise.tests.store.making import create_run, group, trajectory, turn

TURNS = 10
MEMBERS = 10


def fill(database: Database, groups: int) -> None:
    """Write ``groups`` groups of ten trajectories of ten turns."""
    create_run(database)
    turns = [turn(index) for index in range(TURNS)]
    for number in range(groups):
        with database.transaction() as tx:
            operations.open_group(tx, group=group(f"g{number:06d}", size=MEMBERS, seed=number % 50))
            names = [f"t{number:06d}-{member}" for member in range(MEMBERS)]
            for member, name in enumerate(names):
                operations.start_trajectory(tx, trajectory=trajectory(name, f"g{number:06d}", member))
            append.run(tx, [Append(trajectory=name, rows=one["rows"]) for name in names for one in turns])
            for member, name in enumerate(names):
                status = Status.ENV_ERROR if number % 97 == 0 else Status.COMPLETED
                operations.finish_trajectory(tx, trajectory=name, status=status, reward=float(member))
            operations.close_group(tx, group=f"g{number:06d}", state=GroupState.READY)


PAGES: list[dict[str, Any]] = [
    {},
    {"run": "r"},
    {"run": "r", "status": "env_error"},
    {"env": "turnwise/TextSite-v0"},
    {"run": "r", "group": "g000001"},
]


SECONDS_PER_READ_MAX = 0.3


@pytest.mark.alone
@pytest.mark.soak
@pytest.mark.timeout(0)
def test_reads_of_a_million_steps_are_fast(database: Database) -> None:
    groups = 10_000
    fill(database, groups)
    slowest: dict[str, float] = {}
    for arguments in PAGES:
        times: list[float] = []
        after: str | None = None
        for _ in range(20):
            begun = time.perf_counter()
            with database.read() as conn:
                page = list_trajectories(conn, limit=50, after=after, **arguments)
            times.append(time.perf_counter() - begun)
            after = page[-1].id if page else None
        slowest[str(arguments)] = sorted(times)[-2]
    begun = time.perf_counter()
    assert len(load_trajectory(database, f"t{groups // 2:06d}-3").steps) == TURNS
    slowest["open"] = time.perf_counter() - begun
    assert max(slowest.values()) < SECONDS_PER_READ_MAX, slowest
