"""A store of a month's work answers as fast as one of an hour's: every page and every opening goes by an index."""

import time
from typing import Any

import pytest
from sqlalchemy import Connection, event
from turnwise.records import GroupState, Status
from turnwise.store.database import Database, open_database
from turnwise.store.operations import OPERATIONS
from turnwise.store.operations.steps import Append, append_many
from turnwise.store.queries import list_trajectories, load_trajectory
from turnwise.tests.store.making import call, create_run, group, trajectory, turn

TURNS = 10
MEMBERS = 10


def fill(database: Database, groups: int) -> None:
    """``groups`` groups of ten trajectories of ten turns."""
    create_run(database)
    turns = [turn(index) for index in range(TURNS)]
    for number in range(groups):
        with database.transaction() as tx:
            OPERATIONS["open_group"](tx, group=group(f"g{number:06d}", size=MEMBERS, seed=number % 50))
            names = [f"t{number:06d}-{member}" for member in range(MEMBERS)]
            for member, name in enumerate(names):
                OPERATIONS["start_trajectory"](tx, trajectory=trajectory(name, f"g{number:06d}", member))
            append_many(tx, [Append(name, **one) for name in names for one in turns])
            for member, name in enumerate(names):
                status = Status.ENV_ERROR if number % 97 == 0 else Status.COMPLETED
                OPERATIONS["finish_trajectory"](tx, trajectory=name, status=status, reward=float(member))
            OPERATIONS["close_group"](tx, group=f"g{number:06d}", state=GroupState.READY)


PAGES: list[dict[str, Any]] = [
    {},
    {"run": "r"},
    {"run": "r", "status": "env_error"},
    {"env": "turnwise/TextSite-v0"},
    {"run": "r", "group": "g000001"},
]


@pytest.mark.alone
@pytest.mark.parametrize(
    ("groups", "seconds"), [(60, 0.3), pytest.param(10_000, 0.3, marks=[pytest.mark.soak, pytest.mark.timeout(0)])]
)
def test_pages_and_openings_stay_fast(database: Database, groups: int, seconds: float) -> None:
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
    assert max(slowest.values()) < seconds, slowest


def test_opening_an_episode_reads_no_whole_table(tmp_path: Any) -> None:
    database = open_database(f"sqlite:///{tmp_path}/turnwise.db", create=True)
    fill(database, 2)
    call(database, "add_version", run="r", update=0, parent=None)
    seen: list[tuple[str, Any]] = []

    def watch(_: Connection, __: Any, statement: str, parameters: Any, *rest: Any) -> None:
        seen.append((statement, parameters))

    event.listen(database.engine, "before_cursor_execute", watch)
    load_trajectory(database, "t000001-3")
    call(database, "lease_groups", run="r", owner="o", count=1, timeout_s=1)
    event.remove(database.engine, "before_cursor_execute", watch)
    reads = [(statement, parameters) for statement, parameters in seen if statement.startswith("SELECT")]
    assert len(reads) > 6
    with database.read() as conn:
        for statement, parameters in reads:
            plan = conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall()
            assert not [row for row in plan if row[3].startswith("SCAN")], (statement, plan)
    database.close()
