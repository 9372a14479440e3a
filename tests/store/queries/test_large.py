"""Reads use an index, so that their cost does not grow with the store."""

import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event
from turnwise.records import GroupState, Status
from turnwise.store import operations
from turnwise.store.database import Database, open_database
from turnwise.store.operations.steps import Append, append_many
from turnwise.store.queries import list_trajectories, load_trajectory
from turnwise.tests.store.making import call, create_run, group, trajectory, turn

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
            append_many(tx, [Append(name, **one) for name in names for one in turns])
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
            after = page[-1]["id"] if page else None
        slowest[str(arguments)] = sorted(times)[-2]
    begun = time.perf_counter()
    assert len(load_trajectory(database, f"t{groups // 2:06d}-3").steps) == TURNS
    slowest["open"] = time.perf_counter() - begun
    assert max(slowest.values()) < SECONDS_PER_READ_MAX, slowest


class Reads:
    """Records the reads of an SQLite store and explains them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._seen: list[tuple[str, Any]] = []

    def __enter__(self) -> "Reads":
        event.listen(self._database.engine, "before_cursor_execute", self._watch)
        return self

    def __exit__(self, *_: object) -> None:
        event.remove(self._database.engine, "before_cursor_execute", self._watch)

    def _watch(self, _: Connection, __: Any, statement: str, parameters: Any, *rest: Any) -> None:
        if statement.startswith("SELECT"):
            self._seen.append((statement, parameters))

    def plans(self) -> dict[str, list[str]]:
        """Return the steps of each read's plan."""
        with self._database.read() as conn:
            return {
                statement: [row[3] for row in conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)]
                for statement, parameters in self._seen
            }


@pytest.mark.parametrize("arguments", PAGES)
def test_a_page_is_read_in_the_order_of_an_index(tmp_path: Path, arguments: dict[str, Any]) -> None:
    database = open_database(f"sqlite:///{tmp_path}/turnwise.db", create=True)
    fill(database, 2)
    with Reads(database) as reads, database.read() as conn:
        first = list_trajectories(conn, limit=3, **arguments)
        if first:
            list_trajectories(conn, limit=3, after=first[-1]["id"], **arguments)
    plans = reads.plans()
    assert plans
    for statement, plan in plans.items():
        assert not [step for step in plan if step.startswith("SCAN") and "USING INDEX" not in step], statement
    database.close()


def test_loading_an_episode_and_leasing_scan_no_table(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path}/turnwise.db", create=True)
    fill(database, 2)
    call(database, "add_version", run="r", update=0, parent=None)
    with Reads(database) as reads:
        load_trajectory(database, "t000001-3")
        call(database, "lease_groups", run="r", owner="o", count=1, timeout_s=1)
    plans = reads.plans()
    assert len(plans) > 6
    for statement, plan in plans.items():
        assert not [step for step in plan if step.startswith("SCAN")], statement
    database.close()
