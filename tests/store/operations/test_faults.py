"""A statement fails or a process dies at any point: committed writes stay, and no write is stored in part.

CI breaks three of five writes, and kills a writer early; `make soak` has all.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, func, select
from turnwise.records import Status
from turnwise.store import operations
from turnwise.store.database import Database, open_database
from turnwise.store.errors import StoreConflict
from turnwise.store.queries import load_trajectory, load_update, versions
from turnwise.store.schema import step
from turnwise.store.writing.commit_queue import CommitQueue
from turnwise.tests.store.making import call, contents, create_run, group, items, play_group, trajectory, turn

pytestmark = pytest.mark.slow


class Broken(Exception):
    """The injected fault."""


@pytest.mark.parametrize(
    "what",
    [
        "append",
        "acknowledge",
        "rewind",
        pytest.param("finish_trajectory", marks=pytest.mark.soak),
        pytest.param("lease_groups", marks=pytest.mark.soak),
    ],
)
def test_a_failed_statement_rolls_back_its_write(database: Database, what: str) -> None:
    create_run(database)
    call(database, "add_version", run="r", update=0, parent=None)
    play_group(database, "g")
    play_group(database, "h")
    call(database, "open_group", group=group("o"))
    call(database, "start_trajectory", trajectory=trajectory("o-0", "o"))
    call(database, "lease_groups", run="r", owner="learner", count=1, timeout_s=60)
    batch = {"owner": "learner", "groups": ["g"], "update": 1, "parent": 0, "items": items(["g"]), "metrics": {}}
    arguments: dict[str, dict[str, Any]] = {
        "finish_trajectory": {"trajectory": "o-0", "status": Status.COMPLETED, "final_observation": "end"},
        "append": {"trajectory": "o-0", **turn(0)},
        "acknowledge": {"run": "r", **batch},
        "rewind": {"run": "r", "version": None},
        "lease_groups": {"run": "r", "owner": "learner", "count": 2, "timeout_s": 60},
    }
    before = contents(database)
    left = 0

    def fail(*_: Any) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Broken

    event.listen(database.engine, "after_cursor_execute", fail)
    event.listen(database.engine, "commit", fail)
    for nth in range(1, 200):
        left = nth
        try:
            call(database, what, **arguments[what])
        except Broken:
            left = -1
            assert contents(database) == before
        else:
            left = -1
            break
    assert 3 < nth < 199
    assert contents(database) != before


CHILD = """
import sys
from turnwise.records import Status
from turnwise.store import operations
from turnwise.store.database import open_database
from turnwise.store.writing.commit_queue import CommitQueue
from turnwise.tests.store.making import trajectory, turn
writer = CommitQueue(open_database(sys.argv[1]))
for number in range(100_000):
    name = f"t{number}"
    futures = [writer.submit(operations.start_trajectory.bind(trajectory=trajectory(name, member=number)))]
    for index in range(3):
        futures.append(writer.submit(operations.append.bind(trajectory=name, **turn(index, text=f"{name} {index}"))))
    for future in futures:
        future.result()
    print(name, flush=True)
"""


@pytest.mark.parametrize("answers", [4, pytest.param(40, marks=pytest.mark.soak)])
def test_a_committed_write_survives_the_death_of_its_writer(url: str, database: Database, answers: int) -> None:
    create_run(database)
    call(database, "open_group", group=group(size=100_000))
    with subprocess.Popen([sys.executable, "-c", CHILD, url], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        answered = [child.stdout.readline().strip() for _ in range(answers)]
        child.kill()
        answered += [line.strip() for line in child.stdout if line.endswith("\n")]
    assert child.returncode == -9
    assert len(answered) >= answers
    for name in answered:
        stored = load_trajectory(database, name)
        assert [one.observation for one in stored.steps] == [f"{name} {index}" for index in range(3)]
    assert call(database, "rewind", run="r", version=None)["trajectories_cancelled"] >= len(answered)


def test_sixteen_writers_and_four_readers(database: Database) -> None:
    """All processes of a run write: none fails because the database is locked, and no row is lost."""
    create_run(database)
    call(database, "open_group", group=group(size=16))
    failures: list[BaseException] = []
    done = threading.Event()

    def write(member: int) -> None:
        mine = open_database(database.url)
        writer = CommitQueue(mine, window_ms=1)
        try:
            writer.commit(operations.start_trajectory.bind(trajectory=trajectory(f"t{member}", member=member)))
            for index in range(12):
                writer.commit(operations.append.bind(trajectory=f"t{member}", **turn(index)))
            writer.commit(operations.finish_trajectory.bind(trajectory=f"t{member}", status=Status.COMPLETED))
        except BaseException as error:
            failures.append(error)
        finally:
            writer.close()
            mine.close()

    def read() -> None:
        mine = open_database(database.url)
        try:
            while not done.wait(0.005):
                with mine.read() as conn:
                    conn.execute(select(func.count()).select_from(step)).scalar_one()
        except BaseException as error:
            failures.append(error)
        finally:
            mine.close()

    writers = [threading.Thread(target=write, args=(member,)) for member in range(16)]
    readers = [threading.Thread(target=read) for _ in range(4)]
    for thread in writers + readers:
        thread.start()
    for thread in writers:
        thread.join(120)
    done.set()
    for thread in readers:
        thread.join(30)
    assert failures == []
    with database.read() as conn:
        assert conn.execute(select(func.count()).select_from(step)).scalar_one() == 16 * 12


def test_learners_that_race_share_no_group(database: Database) -> None:
    create_run(database)
    for number in range(12):
        play_group(database, f"g{number:02d}")
    taken: list[str] = []

    def lease(owner: str) -> None:
        mine = open_database(database.url)
        while got := call(mine, "lease_groups", run="r", owner=f"{owner}-{len(taken)}", count=1, timeout_s=60):
            taken.extend(got)
        mine.close()

    threads = [threading.Thread(target=lease, args=(f"o{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(taken) == [f"g{number:02d}" for number in range(12)]


def in_threads(work: Callable[[Database, int], None], url: str, count: int = 4) -> None:
    """Run ``work`` in threads, each on its own connection to the store."""

    def one(number: int) -> None:
        mine = open_database(url)
        try:
            work(mine, number)
        finally:
            mine.close()

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)


def test_concurrent_repeats_of_one_version_record_it_once(database: Database) -> None:
    create_run(database)
    call(database, "add_version", run="r", update=0, parent=None)
    outcome: list[Any] = []
    in_threads(lambda mine, _: outcome.append(call(mine, "add_version", run="r", update=1, parent=0)), database.url)
    assert outcome == [1, 1, 1, 1]
    with database.read() as conn:
        assert list(versions(conn, "r")) == [0, 1]


def test_of_concurrent_updates_from_different_groups_one_is_recorded(database: Database) -> None:
    create_run(database)
    call(database, "add_version", run="r", update=0, parent=None)
    names = [f"g{number}" for number in range(4)]
    for name in names:
        play_group(database, name)
    owners = [f"o{number}" for number in range(4)]
    held = [call(database, "lease_groups", run="r", owner=owner, count=1, timeout_s=60) for owner in owners]
    outcome: dict[int, Any] = {}

    def acknowledge(mine: Database, number: int) -> None:
        batch = {"groups": held[number], "items": items(held[number]), "metrics": {}}
        try:
            outcome[number] = call(mine, "acknowledge", run="r", owner=owners[number], update=1, parent=0, **batch)
        except StoreConflict as error:
            outcome[number] = error

    in_threads(acknowledge, database.url)
    winners = [number for number, one in outcome.items() if one == 1]
    assert len(outcome) == 4
    assert len(winners) == 1
    with database.read() as conn:
        assert list(versions(conn, "r")) == [0, 1]
        consumed = load_update(conn, "r", 1).members
    assert {one.trajectory.rpartition("-")[0] for one in consumed} == set(held[winners[0]])


FULL = """
import os, sys
from pathlib import Path
from turnwise.store.content.blobs import digest
from turnwise.store.content.rows import rows_of
from turnwise.store import operations
from turnwise.store.database import open_database
from turnwise.store.errors import StoreFull
from turnwise.store.queries import load_trajectory
from turnwise.store.writing.commit_queue import CommitQueue
from turnwise.tests.store.making import create_run, group, records, trajectory, turn
folder = Path(sys.argv[1])
ballast = folder / "ballast"
ballast.write_bytes(bytes(1 << 20))
database = open_database(f"sqlite:///{folder}/turnwise.db", create=True)
writer = CommitQueue(database)
create_run(database)
writer.commit(operations.open_group.bind(group=group()))
writer.commit(operations.start_trajectory.bind(trajectory=trajectory("t")))
stored = 0
try:
    for index in range(100_000):
        writer.commit(operations.append.bind(trajectory="t", **turn(index, text=f"{index} " * 1500)))
        stored += 1
except StoreFull as error:
    assert "free some space" in str(error), error
else:
    raise SystemExit("never full")
image = os.urandom(1 << 20)
try:
    writer.commit(operations.append.bind(trajectory="t", rows=rows_of(*records(stored), {digest(image): image})))
except StoreFull as error:
    print(error)
else:
    raise SystemExit("room for an image?")
assert len(load_trajectory(database, "t").steps) == stored > 3
ballast.unlink()
writer.commit(operations.append.bind(trajectory="t", **turn(stored)))
writer.close()
database.close()
assert len(load_trajectory(open_database(str(folder / "turnwise.db")), "t").steps) == stored + 1
print("stored", stored)
"""


def test_a_full_disk_is_reported_and_loses_no_stored_row(tmp_path: Path) -> None:
    """The file system has four megabytes, visible to the child only; writes continue once there is room again."""
    mount = f'mount -t tmpfs -o size=4m tmpfs {tmp_path} && exec {sys.executable} -c "$PROGRAM" {tmp_path}'
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", mount],
        env={"PROGRAM": FULL, "PATH": "/usr/bin:/bin", "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "no room" in done.stdout
