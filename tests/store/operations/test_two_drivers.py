"""Two drivers of one run and workers that were replaced: in any order of their calls, the store stays consistent."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from sqlalchemy import Connection, and_, func, select
from turnwise.records import SCORED_STATUSES, GroupState, Status
from turnwise.store.content.rows import Rows, Written, sampled_of
from turnwise.store.content.turn_rows import messages_of, turn_rows
from turnwise.store.database import Database, open_database
from turnwise.store.errors import Fenced, NotFound, StoreError
from turnwise.store.maintenance.integrity import check_store
from turnwise.store.operations import BatchItem, Rewards
from turnwise.store.queries import latest_checkpoint, next_group, next_scoring, versions
from turnwise.store.queries.load import HEADS, verify_rows
from turnwise.store.schema import (
    batch_group,
    batch_item,
    lease,
    policy_version,
    rollout_group,
    step,
)
from turnwise.store.schema import trajectory as trajectory_table
from turnwise.tests.store.making import call, group, sqlite_store, trajectory, turn
from turnwise.tests.store.postgres import Server

pytestmark = pytest.mark.slow

RUN: dict[str, Any] = {"config": {}, "config_hash": "c", "kind": "train", "code_version": "0"}
OWNERS = st.sampled_from(["learner", "standby"])
WHO = st.sampled_from([0, 0, 0, 1])
"""The driver that acts: the newest one, or the one that it replaced."""
CLOSINGS = [GroupState.READY, GroupState.READY, GroupState.SCORING, GroupState.FILTERED, GroupState.FAILED]
ENDS = [Status.COMPLETED, Status.COMPLETED, Status.TRUNCATED, Status.ENV_ERROR]


@dataclass
class Driver:
    """A process that drives the run, and what it remembers."""

    database: Database
    epoch: int
    tip: int = -1
    """The newest version that it knows."""
    update: int = -1
    held: dict[str, list[str]] = field(default_factory=dict)
    """The groups that each of its owners leased."""


@dataclass
class Worker:
    """A process that plays one episode. It never learns that it was replaced."""

    database: Database
    writer: str
    trajectory: str
    written: Written = field(default_factory=Written)

    def turn(self, version: int) -> Rows:
        """Return the rows of its next turn; its writer is in the text."""
        index = len(self.written.steps)
        rows: Rows = turn(index, version, f"{self.writer}: page {index}")["rows"]
        self.written.add(rows)
        return rows


class Machine(RuleBasedStateMachine):
    """Drivers take over from each other; workers are lost, replaced and late; every call may come again."""

    make: Callable[[], tuple[Database, Database]]

    def __init__(self) -> None:
        super().__init__()
        self.stores = type(self).make()
        self.names = count()
        self.drivers: list[Driver] = []
        self.workers: list[Worker] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.take_over(None)

    def teardown(self) -> None:
        assert list(check_store(self.stores[0])) == []
        for store in self.stores:
            store.close()

    def write(self, database: Database, name: str, **arguments: Any) -> Any:
        """Call an operation; return its result, or the error that refused it."""
        try:
            found = call(database, name, **arguments)
        except StoreError as error:
            found = error
        epoch = arguments.get("epoch")
        assert epoch in (None, self.drivers[0].epoch) or isinstance(found, Fenced | NotFound), (name, arguments, found)
        if name == "acknowledge" and isinstance(found, int):
            with database.read() as conn:
                made = select(policy_version.c.weights_hash).where(policy_version.c.id == found)
                assert conn.execute(made).scalars().all() == [arguments["weights_hash"]], "a version with two weights"
        return found

    def do(self, database: Database, name: str, **arguments: Any) -> Any:
        """Call an operation that ``repeat`` may call again."""
        self.calls.append((name, arguments))
        return self.write(database, name, **arguments)

    def drive(self, who: int, name: str, **arguments: Any) -> Any:
        """Call an operation as a driver."""
        driver = self.driver(who)
        return self.do(driver.database, name, **arguments, epoch=driver.epoch)

    def driver(self, who: int) -> Driver:
        return self.drivers[min(who, len(self.drivers) - 1)]

    def read(self, query: Callable[[Connection], Any]) -> Any:
        with self.stores[0].read() as conn:
            return query(conn)

    def groups(self, *states: GroupState) -> list[str]:
        """Return the ids of the groups in ``states``, or of all groups."""
        which = select(rollout_group.c.id).order_by(rollout_group.c.no)
        if states:
            which = which.where(rollout_group.c.state.in_([state.value for state in states]))
        return list(self.read(lambda conn: conn.execute(which).scalars().all()))

    @rule(data=st.data() | st.none())
    def take_over(self, data: st.DataObject | None) -> None:
        """A new driver begins, which the other one does not notice; workers write until it has resumed the run."""
        store = self.stores[len(self.drivers) % 2]
        epoch = call(store, "create_run", run="r", **RUN, driver=f"driver-{next(self.names)}")
        self.drivers.insert(0, Driver(store, epoch))
        if data is not None and self.workers:
            self.play(data)
        found = self.read(lambda conn: latest_checkpoint(conn, "r"))
        self.drive(0, "rewind", run="r", version=found.id if found else None)
        self.look()

    def look(self) -> None:
        """Let the newest driver read the newest version; it makes the first one."""
        driver = self.drivers[0]
        stored = self.read(lambda conn: [one for one in versions(conn, "r").values() if not one.abandoned])
        if stored:
            newest = max(stored, key=lambda one: one.update)
            driver.tip, driver.update = newest.id, newest.update
        else:
            driver.tip, driver.update = self.drive(0, "add_version", run="r", update=0, parent=None), 0

    def open(self, who: int) -> str:
        """Open a group of the next number."""
        name = f"r:{self.read(lambda conn: next_group(conn, 'r'))}"
        self.drive(who, "open_group", group=group(name))
        return name

    @rule(data=st.data(), member=st.integers(0, 1), attempt=st.integers(0, 1))
    def begin(self, data: st.DataObject, member: int, attempt: int) -> None:
        """Start a worker, perhaps for an episode that another one plays, or in a closed group."""
        if not self.groups(GroupState.OPEN):
            self.open(0)
        of = data.draw(st.sampled_from(self.groups(GroupState.OPEN) if data.draw(st.integers(0, 3)) else self.groups()))
        worker = self.worker(of, member, attempt)
        self.do(worker.database, "start_trajectory", trajectory=self.episode(worker), writer=worker.writer)

    def worker(self, of: str, member: int, attempt: int) -> Worker:
        number = next(self.names)
        worker = Worker(self.stores[number % 2], f"w{number}", f"{of}-{member}.{attempt}")
        self.workers.append(worker)
        return worker

    def episode(self, worker: Worker) -> Any:
        of, _, place = worker.trajectory.rpartition("-")
        member, attempt = place.split(".")
        return trajectory(worker.trajectory, of, int(member), int(attempt))

    @precondition(lambda self: self.workers)
    @rule(data=st.data())
    def play(self, data: st.DataObject) -> None:
        """A worker plays a turn, lost or not."""
        worker = data.draw(st.sampled_from(self.workers[-6:]))
        rows = worker.turn(self.drivers[0].tip)
        self.do(worker.database, "append", trajectory=worker.trajectory, rows=rows, writer=worker.writer)

    @precondition(lambda self: self.workers)
    @rule(data=st.data(), status=st.sampled_from(ENDS))
    def finish(self, data: st.DataObject, status: Status) -> None:
        """A worker ends its episode, lost or not."""
        self.end(data.draw(st.sampled_from(self.workers[-6:])), status)

    def end(self, worker: Worker, status: Status) -> None:
        self.do(
            worker.database,
            "finish_trajectory",
            trajectory=worker.trajectory,
            status=status,
            reward=1.0,
            tally=worker.written.tally(),
            writer=worker.writer,
        )

    @rule(who=WHO, state=st.sampled_from(CLOSINGS))
    def play_group(self, who: int, state: GroupState) -> None:
        """The most frequent sequence of calls, so that histories advance further in as many steps."""
        name = self.open(who)
        for member in range(2):
            worker = self.worker(name, member, 0)
            self.do(worker.database, "start_trajectory", trajectory=self.episode(worker), writer=worker.writer)
            rows = worker.turn(self.drivers[0].tip)
            self.do(worker.database, "append", trajectory=worker.trajectory, rows=rows, writer=worker.writer)
            if member == 0 or state is GroupState.READY:
                self.end(worker, Status.COMPLETED)
        self.drive(who, "close_group", group=name, state=state)

    @rule(data=st.data(), who=WHO, state=st.sampled_from(CLOSINGS))
    def close(self, data: st.DataObject, who: int, state: GroupState) -> None:
        if opened := self.groups(GroupState.OPEN):
            name = data.draw(st.sampled_from(opened))
            if data.draw(st.booleans()):
                self.drive(who, "cancel_trajectories", group=name, reason="its worker was lost")
            self.drive(who, "close_group", group=name, state=state)

    @rule(data=st.data(), who=WHO)
    def score(self, data: st.DataObject, who: int) -> None:
        if waiting := self.groups(GroupState.SCORING):
            name = data.draw(st.sampled_from(waiting))
            scores = [Rewards(one, [0.5]) for one in self.survivors([name])]
            number = self.read(lambda conn: next_scoring(conn, "r"))
            self.drive(who, "score_group", group=name, number=number, state=GroupState.READY, rewards=scores)

    def survivors(self, names: Iterable[str]) -> list[str]:
        which = (
            select(trajectory_table.c.id)
            .join(rollout_group, rollout_group.c.no == trajectory_table.c.group_no)
            .where(rollout_group.c.id.in_(list(names)))
            .where(trajectory_table.c.status.in_([status.value for status in SCORED_STATUSES]))
        )
        return list(self.read(lambda conn: conn.execute(which.order_by(trajectory_table.c.no)).scalars().all()))

    @rule(who=WHO, owner=OWNERS, size=st.integers(1, 2), timeout_s=st.sampled_from([60, 0]))
    def lease(self, who: int, owner: str, size: int, timeout_s: int) -> None:
        """Lease groups, perhaps for so short a time that another owner takes them."""
        got = self.drive(who, "lease_groups", run="r", owner=owner, count=size, timeout_s=timeout_s)
        if isinstance(got, list) and got:
            self.driver(who).held[owner] = got

    @rule(who=WHO, owner=OWNERS)
    def acknowledge(self, who: int, owner: str) -> None:
        """Update from the groups that an owner leased, or leased once; each update makes other weights."""
        driver = self.driver(who)
        batch = driver.held.get(owner)
        if not batch:
            return
        made = self.drive(
            who,
            "acknowledge",
            run="r",
            owner=owner,
            groups=batch,
            update=driver.update + 1,
            parent=driver.tip,
            items=[BatchItem(name, 2, 0, 0.0) for name in self.survivors(batch)],
            metrics={},
            weights_hash=f"weights-{next(self.names)}",
        )
        if isinstance(made, int):
            driver.tip, driver.update = made, driver.update + 1
            del driver.held[owner]

    @rule(who=WHO, owner=OWNERS)
    def release(self, who: int, owner: str) -> None:
        self.drive(who, "release", run="r", owner=owner)

    @rule(data=st.data(), who=WHO, owner=OWNERS)
    def expire(self, data: st.DataObject, who: int, owner: str) -> None:
        if queued := self.groups(GroupState.READY, GroupState.LEASED):
            names = [data.draw(st.sampled_from(queued))]
            self.drive(who, "expire_groups", run="r", owner=owner, groups=names, reason="too old")

    @rule(who=WHO)
    def checkpoint(self, who: int) -> None:
        driver = self.driver(who)
        self.drive(who, "set_checkpoint", run="r", version=driver.tip, path=f"step-{driver.tip}")

    @rule(data=st.data(), store=st.integers(0, 1))
    def repeat(self, data: st.DataObject, store: int) -> None:
        """Repeat an earlier call, over one of the two connections."""
        name, arguments = data.draw(st.sampled_from(self.calls))
        self.write(self.stores[store], name, **arguments)
        self.look()

    @invariant()
    def the_store_is_consistent(self) -> None:
        with self.stores[1].read() as conn:
            check_trajectories(conn)
            check_history(conn)


def check_trajectories(conn: Connection) -> None:
    """Check that one writer wrote each trajectory, that it ended with its group, and that its rows are unaltered."""
    heads = conn.execute(HEADS.add_columns(rollout_group.c.state)).mappings().all()
    content = turn_rows(conn, [head["no"] for head in heads])
    for head in heads:
        rows = content[head["no"]]
        steps = rows[step]
        assert all(row["observation"].startswith(f"{head['writer']}: ") for row in steps), "rows of two writers"
        verify_rows(head, rows)
        if head["status"] == Status.RUNNING.value:
            assert head["state"] == GroupState.OPEN.value, f"{head['id']} is running in a closed group"
            continue
        assert head["seal"] is not None
        assert head["n_steps"] == len(steps)
        messages = [one for row in steps for one in messages_of(row, {})]
        assert head["n_tokens"] == sampled_of(messages)[0]


def check_history(conn: Connection) -> None:
    """Check that the surviving history is one chain, and consumed each group and trajectory once."""
    surviving = conn.execute(select(policy_version).where(~policy_version.c.abandoned)).mappings().all()
    by_update = {row["update_no"]: row["id"] for row in surviving}
    assert len(by_update) == len(surviving), "two versions at one surviving update"
    assert all(row["parent_id"] == by_update.get(row["update_no"] - 1) for row in surviving)
    used: list[Counter[int]] = []
    for table, column in ((batch_group, "group_no"), (batch_item, "trajectory_no")):
        same = and_(policy_version.c.run_no == table.c.run_no, policy_version.c.id == table.c.version_id)
        which = select(table.c[column]).join(policy_version, same).where(table.c.fresh, ~policy_version.c.abandoned)
        used.append(Counter(conn.execute(which).scalars()))
        assert max(used[-1].values(), default=1) == 1, f"a {column} was consumed twice"
    states = {row.no: row.state for row in conn.execute(select(rollout_group.c.no, rollout_group.c.state))}
    assert {no for no, state in states.items() if state == GroupState.CONSUMED.value} == set(used[0])
    held = Counter(conn.execute(select(lease.c.group_no).where(lease.c.ended_at.is_(None))).scalars())
    assert held == Counter(no for no, state in states.items() if state == GroupState.LEASED.value)
    stale = (
        select(func.count())
        .select_from(trajectory_table)
        .join(policy_version, policy_version.c.id == trajectory_table.c.max_version)
        .where(trajectory_table.c.no.in_(list(used[1])), policy_version.c.abandoned)
    )
    assert conn.execute(stale).scalar_one() == 0, "an update trained on tokens of an abandoned version"


CI = [pytest.param("sqlite", 2, 20, id="sqlite"), pytest.param("postgresql", 1, 20, id="postgresql")]
SOAK = [pytest.param(name, 2000, 80, id=f"{name}-soak", marks=pytest.mark.soak) for name in ("sqlite", "postgresql")]


@pytest.mark.parametrize(("backend", "examples", "steps"), [*CI, *SOAK])
@pytest.mark.timeout(0)
def test_any_history_of_two_drivers(
    backend: str, examples: int, steps: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    made = count()
    if backend == "sqlite":

        def url() -> str:
            return sqlite_store(tmp_path, f"{next(made)}.db")
    else:
        server: Server = request.getfixturevalue("server")
        template: str = request.getfixturevalue("template")

        def url() -> str:
            return server.url(server.create(template))

    def make() -> tuple[Database, Database]:
        address = url()
        return open_database(address), open_database(address)

    class TwoDrivers(Machine):
        pass

    TwoDrivers.make = staticmethod(make)
    run_state_machine_as_test(
        TwoDrivers,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
