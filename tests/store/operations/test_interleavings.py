"""Two drivers, two writers or two transactions at once: each waits for the other, or is refused."""

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from sqlalchemy import func, select, text
from turnwise.records import GroupState, Status
from turnwise.store.database import Database, open_database
from turnwise.store.errors import Fenced, LeaseLost, StoreConflict
from turnwise.store.operations import OPERATIONS
from turnwise.store.queries import list_trajectories, load_group_heads, load_trajectory, next_group, versions
from turnwise.store.schema import batch_group, rollout_group, train_batch
from turnwise.store.schema import trajectory as trajectory_table
from turnwise.tests.store.making import call, group, items, play_group, start, states, task, trajectory, turn

RUN: dict[str, Any] = {"run": "r", "config": {}, "config_hash": "c", "kind": "train", "code_version": "0"}
LEASE: dict[str, Any] = {"run": "r", "count": 4, "timeout_s": 60}
WAIT_S = 20.0
"""Longest wait of a test for a thread."""

postgresql = pytest.mark.parametrize("url", ["postgresql"], indirect=True)


@pytest.fixture
def second(database: Database) -> Iterator[Database]:
    """Yield the same store over connections of its own."""
    opened = open_database(database.url)
    yield opened
    opened.close()


def update(names: list[str], owner: str, by: str, epoch: int) -> dict[str, Any]:
    """Return the acknowledgement of update 1 by one driver."""
    whole = {"run": "r", "owner": owner, "groups": names, "update": 1, "parent": 0, "items": items(names)}
    return whole | {"metrics": {"by": by}, "weights_hash": by, "epoch": epoch}


@pytest.mark.parametrize("owners", [("r/learner", "r/learner"), ("first", "second")])
def test_a_the_update_of_a_replaced_driver_is_refused(
    database: Database, second: Database, owners: tuple[str, str]
) -> None:
    """Old code: both drivers were owner ``r/learner``. The first's late update made version 1, and the second's was
    answered as its repeat: two weights were version 1.
    """
    first = call(database, "create_run", **RUN, driver="first")
    call(database, "add_version", run="r", update=0, parent=None, epoch=first)
    names = [f"g{number}" for number in range(4)]
    for name in names:
        play_group(database, name)
    assert call(database, "lease_groups", owner=owners[0], **LEASE, epoch=first) == names
    new = call(second, "create_run", **RUN, driver="second")
    call(second, "rewind", run="r", version=0, epoch=new)
    assert call(second, "lease_groups", owner=owners[1], **LEASE, epoch=new) == names
    late, right = update(names, owners[0], "first", first), update(names, owners[1], "second", new)
    with pytest.raises(Fenced, match="nothing was written"):
        call(database, "acknowledge", **late)
    assert call(second, "acknowledge", **right) == 1
    for _ in range(2):
        with pytest.raises(Fenced):
            call(database, "acknowledge", **late)
        assert call(second, "acknowledge", **right) == 1
    with database.read() as conn:
        assert list(versions(conn, "r")) == [0, 1]
        assert conn.execute(select(train_batch.c.metrics)).scalars().all() == [{"by": "second"}]
        assert conn.execute(select(func.count()).select_from(batch_group)).scalar_one() == 4


def test_a_the_lease_of_a_replaced_driver_is_lost(database: Database, second: Database) -> None:
    """A driver that writes without an epoch, as all did, is refused by the lease if its owner is its own."""
    start(database)
    play_group(database, "g")
    assert call(database, "lease_groups", owner="first", **LEASE | {"count": 1}) == ["g"]
    call(second, "rewind", run="r", version=0)
    assert call(second, "lease_groups", owner="second", **LEASE | {"count": 1}) == ["g"]
    with pytest.raises(LeaseLost):
        call(database, "acknowledge", **update(["g"], "first", "first", 1) | {"epoch": None})


def test_a_an_overdue_update_from_the_same_groups_is_no_repeat(database: Database, second: Database) -> None:
    """Old code: the update of the owner whose lease was overdue was answered as a repeat of the other owner's, because
    parent and groups were equal: it went on with weights that are not those of version 1.
    """
    start(database)
    play_group(database, "g")
    overdue = {"run": "r", "count": 1, "timeout_s": -1}
    assert call(database, "lease_groups", owner="first", **overdue) == ["g"]
    assert call(second, "lease_groups", owner="second", **LEASE | {"count": 1}) == ["g"]
    right, late = (update(["g"], one, one, 1) for one in ("second", "first"))
    assert call(second, "acknowledge", **right) == 1
    for changed in (late, right | {"weights_hash": "other"}, right | {"metrics": {}}, right | {"items": []}):
        with pytest.raises(StoreConflict, match="already made version 1 from another batch"):
            call(database, "acknowledge", **changed)
    assert call(second, "acknowledge", **right) == 1


def test_a_two_drivers_open_no_common_group(database: Database, second: Database) -> None:
    """Old code: both drivers opened ``r:0`` with different tasks, and their episodes were members of one group."""
    first = call(database, "create_run", **RUN, driver="first")
    new = call(second, "create_run", **RUN, driver="second")
    with second.read() as conn:
        name = f"r:{next_group(conn, 'r')}"
    call(second, "open_group", group=group(name, seed=2), epoch=new)
    with pytest.raises(Fenced):
        call(database, "open_group", group=group(name, seed=1), epoch=first)
    with database.read() as conn:
        assert conn.execute(select(rollout_group.c.id)).scalars().all() == ["r:0"]
        assert load_group_heads(conn, ["r:0"])[0].task == task(2)


def test_b_a_lost_worker_and_its_replacement_share_no_trajectory(database: Database, second: Database) -> None:
    """Old code: the replacement's start was taken for a repeat. Step 0 of the lost worker and step 1 of the new one
    were stored as one completed trajectory with reward 9.5, and it was trained on.
    """
    start(database)
    call(database, "open_group", group=group())
    call(database, "start_trajectory", trajectory=trajectory("g-0.1", attempt=1), writer="lost")
    call(database, "append", trajectory="g-0.1", **turn(0, text="lost"), writer="lost")
    new: list[tuple[str, dict[str, Any]]] = [
        ("start_trajectory", {"trajectory": trajectory("g-0.1", attempt=1)}),
        ("append", {"trajectory": "g-0.1", **turn(0, text="new")}),
        ("append", {"trajectory": "g-0.1", **turn(1, text="new")}),
        ("finish_trajectory", {"trajectory": "g-0.1", "status": Status.COMPLETED, "reward": 9.5}),
    ]
    for name, arguments in new:
        with pytest.raises(Fenced, match=r"another process writes trajectory g-0\.1"):
            call(second, name, **arguments, writer="new")
    call(second, "close_group", group="g", state=GroupState.FAILED)
    with pytest.raises(StoreConflict, match="ended as cancelled"):
        call(database, "append", trajectory="g-0.1", **turn(1, text="lost"), writer="lost")
    stored = load_trajectory(database, "g-0.1")
    assert (stored.status, [one.observation for one in stored.steps]) == (Status.CANCELLED, ["lost"])


def test_b_a_late_start_does_not_end_the_run(database: Database, second: Database) -> None:
    """Old code: ``close_group`` raised "still has 1 running trajectories", and the run ended by a worker's death."""
    start(database)
    call(database, "open_group", group=group())
    call(database, "cancel_trajectories", group="g", reason="its worker was lost")
    call(second, "start_trajectory", trajectory=trajectory("g-0"), writer="lost")
    call(database, "close_group", group="g", state=GroupState.FAILED)
    with pytest.raises(StoreConflict, match="cannot end as completed"):
        call(second, "finish_trajectory", trajectory="g-0", status=Status.COMPLETED, writer="lost")
    assert load_trajectory(database, "g-0").status is Status.CANCELLED


class Open:
    """A transaction of the calling thread, open until ``commit``."""

    def __init__(self, database: Database) -> None:
        self._left = ExitStack()
        self.tx = self._left.enter_context(database.transaction())

    def commit(self) -> None:
        self._left.close()


class Together:
    """Runs operations in transactions that are open at the same time, each in its own thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._threads = ThreadPoolExecutor(4)
        self._begun: list[Open] = []

    def begin(self, name: str, **arguments: Any) -> Open:
        """Run an operation in a transaction of the calling thread, and leave it open."""
        self._begun.append(Open(self._database))
        OPERATIONS[name](self._begun[-1].tx, **arguments)
        return self._begun[-1]

    def call(self, name: str, **arguments: Any) -> "Future[Any]":
        """Run an operation in another thread, and return once it has its result or waits for a lock."""
        begun = self._threads.submit(call, self._database, name, **arguments)
        until = time.monotonic() + WAIT_S
        while not begun.done() and not self.waiting():
            assert time.monotonic() < until, f"{name} neither waits nor ends"
            time.sleep(0.005)
        return begun

    def waiting(self) -> int:
        """Return how many connections to the database wait for a lock."""
        waits = text(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        with self._database.read() as conn:
            return int(conn.execute(waits).scalar_one())

    def close(self) -> None:
        for one in self._begun:
            one.commit()
        self._threads.shutdown()


@pytest.fixture
def together(database: Database) -> Iterator[Together]:
    made = Together(database)
    yield made
    made.close()


@contextmanager
def refused(error: type[Exception], match: str, begun: "Future[Any]") -> Iterator[None]:
    """Check that ``begun`` waits, and that it raises once the body has run."""
    assert not begun.done()
    yield
    with pytest.raises(error, match=match):
        begun.result(WAIT_S)


def running(database: Database) -> list[str]:
    """Return the ids of the running trajectories."""
    with database.read() as conn:
        return [row.id for row in list_trajectories(conn, status="running")]


GROUPS = ("finished", "cancelled", "closed", "rewound")


@pytest.fixture
def opened(database: Database) -> Database:
    """Return a store with the open ``GROUPS``, in each of which one trajectory plays."""
    start(database)
    for name in GROUPS:
        call(database, "open_group", group=group(name))
        call(database, "start_trajectory", trajectory=trajectory(f"{name}-0", name), writer="w")
        call(database, "append", trajectory=f"{name}-0", **turn(0), writer="w")
    return database


def closings() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield a group, and the call that closes it; the last one closes every group."""
    yield "closed", "close_group", {"group": "closed", "state": GroupState.FAILED}
    yield "rewound", "rewind", {"run": "r", "version": 0}


def endings() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield a group, and the call that ends its trajectory; the last one ends every trajectory."""
    yield "finished", "finish_trajectory", {"trajectory": "finished-0", "status": Status.COMPLETED, "writer": "w"}
    yield "cancelled", "cancel_trajectories", {"group": "cancelled", "reason": "its worker was lost"}
    yield from closings()


@postgresql
def test_c_a_start_waits_for_a_closing_and_is_refused(opened: Database, together: Together) -> None:
    """Old code: the start read ``open`` without a lock, and left a running trajectory in a failed group."""
    for of, name, arguments in closings():
        closing = together.begin(name, **arguments)
        late = trajectory(f"{of}-1", of, member=1)
        begun = together.call("start_trajectory", trajectory=late, writer="w")
        with refused(StoreConflict, f"group {of} is failed", begun):
            closing.commit()
    assert running(opened) == []


@postgresql
def test_c_a_closing_waits_for_a_start_and_cancels_it(opened: Database, together: Together) -> None:
    """Old code: ``close_group`` was right. ``rewind`` listed the running trajectories before it waited for the group,
    and left the new one running in a failed group.
    """
    for of, name, arguments in closings():
        late = trajectory(f"{of}-1", of, member=1)
        starting = together.begin("start_trajectory", trajectory=late, writer="w")
        begun = together.call(name, **arguments)
        assert not begun.done(), name
        starting.commit()
        begun.result(WAIT_S)
        assert load_trajectory(opened, late.id).status is Status.CANCELLED
    assert running(opened) == []
    assert states(opened) == {"failed": len(GROUPS)}


@postgresql
def test_c_an_append_waits_for_an_ending_and_is_refused(opened: Database, together: Together) -> None:
    """Old code: the append read ``running`` without a lock. The head counted 1 step, and 2 were stored."""
    for of, name, arguments in endings():
        ending = together.begin(name, **arguments)
        begun = together.call("append", trajectory=f"{of}-0", **turn(1), writer="w")
        with refused(StoreConflict, "so no step can be appended", begun):
            ending.commit()
        assert len(load_trajectory(opened, f"{of}-0").steps) == 1


@postgresql
def test_c_an_ending_waits_for_an_append_and_counts_its_step(opened: Database, together: Together) -> None:
    """Old code: the ending did not wait. It counted 1 step, and then the append stored the second."""
    for of, name, arguments in endings():
        appending = together.begin("append", trajectory=f"{of}-0", **turn(1), writer="w")
        begun = together.call(name, **arguments)
        assert not begun.done(), name
        appending.commit()
        begun.result(WAIT_S)
        with opened.read() as conn:
            (head,) = list_trajectories(conn, group=of)
        assert head.n_steps == len(load_trajectory(opened, f"{of}-0").steps) == 2


@postgresql
def test_c_of_two_starts_of_one_trajectory_one_is_refused(opened: Database, together: Together) -> None:
    """Old code: both were answered as the first, and both went on to append."""
    first = together.begin("start_trajectory", trajectory=trajectory("closed-1", "closed", member=1), writer="first")
    begun = together.call("start_trajectory", trajectory=trajectory("closed-1", "closed", member=1), writer="second")
    with refused(Fenced, "another process writes trajectory closed-1", begun):
        first.commit()
    with opened.read() as conn:
        stored = (
            conn.execute(select(trajectory_table.c.writer).where(trajectory_table.c.id == "closed-1")).scalars().all()
        )
    assert stored == ["first"]


@postgresql
def test_c_a_lease_does_not_wait_for_a_worker(opened: Database, together: Together) -> None:
    """Old code: ``FOR UPDATE`` of the run waited for every open transaction that had inserted a trajectory, because
    the foreign key of that row locks the run's.
    """
    play_group(opened, "ready")
    worker = together.begin("start_trajectory", trajectory=trajectory("closed-1", "closed", member=1), writer="w")
    OPERATIONS["append"](worker.tx, trajectory="closed-1", **turn(0), writer="w")
    OPERATIONS["append"](worker.tx, trajectory="closed-0", **turn(1), writer="w")
    leasing = together.call("lease_groups", owner="l", **LEASE | {"count": 1})
    assert leasing.done(), "the lease waits for a worker"
    assert leasing.result() == ["ready"]
    worker.commit()
    learner = together.begin("release", run="r", owner="l")
    appending = together.call("append", trajectory="closed-0", **turn(2), writer="w")
    assert appending.done(), "a worker waits for the learner"
    learner.commit()


@postgresql
def test_a_late_closing_and_a_resume_do_not_deadlock(opened: Database, together: Together) -> None:
    """Old code: ``close_group`` locked the group, then waited for the run; ``rewind`` held the run and waited for the
    group. PostgreSQL ended one of them after a second.
    """
    new = call(opened, "create_run", **RUN, driver="second")
    with opened.transaction() as tx:
        OPERATIONS["lease_groups"](tx, owner="second", **LEASE, epoch=new)
        late = together.call("close_group", group="closed", state=GroupState.FAILED, epoch=new - 1)
        assert not late.done()
        OPERATIONS["rewind"](tx, run="r", version=0, epoch=new)
        assert together.waiting() == 1
    with pytest.raises(Fenced):
        late.result(WAIT_S)
