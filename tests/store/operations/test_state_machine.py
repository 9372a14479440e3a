"""Any order of writes, lost answers and resumes: the store agrees with a small model, and loses nothing."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from sqlalchemy import func, select
from turnwise.records import SCORED_STATUSES, GroupState, Status
from turnwise.store.database import Database, open_database
from turnwise.store.maintenance.integrity import check_store
from turnwise.store.operations import BatchItem, Rewards
from turnwise.store.queries import accounting, group_counts, latest_checkpoint, versions
from turnwise.store.schema import batch_item, step
from turnwise.store.schema import trajectory as heads
from turnwise.tests.store.making import call, create_run, double_consumed, group, sqlite_store, trajectory, turn
from turnwise.tests.store.postgres import Server

pytestmark = pytest.mark.slow

ENDS = [Status.COMPLETED, Status.COMPLETED, Status.TRUNCATED, Status.ENV_ERROR, Status.TIMEOUT]
SCORED = [GroupState.READY, GroupState.READY, GroupState.FILTERED, GroupState.FAILED]
CLOSINGS = [GroupState.SCORING, GroupState.SCORING, *SCORED]


@dataclass
class Episode:
    """A trajectory in the model."""

    group: str
    member: int
    attempt: int
    status: Status = Status.RUNNING
    sampled_by: list[int] = field(default_factory=list)


@dataclass
class Version:
    """A policy version in the model."""

    update: int
    groups: list[str] = field(default_factory=list)
    checkpoint: bool = False
    abandoned: bool = False


class Machine(RuleBasedStateMachine):
    """A run: its driver, rollouts and learner make any allowed call in any order."""

    make: Callable[[], Database]

    def __init__(self) -> None:
        super().__init__()
        self.database = type(self).make()
        self.last: tuple[str, dict[str, Any]] = ("create_run", {})
        self.groups: dict[str, GroupState] = {}
        self.episodes: dict[str, Episode] = {}
        self.versions: list[Version] = []
        self.held: list[str] = []
        self.scorings = 0
        create_run(self.database)
        self.first_version()

    def teardown(self) -> None:
        assert list(check_store(self.database)) == []
        self.database.close()

    def do(self, name: str, **arguments: Any) -> Any:
        self.last = (name, arguments)
        return call(self.database, name, **arguments)

    def first_version(self) -> None:
        assert self.do("add_version", run="r", update=0, parent=None) == len(self.versions)
        self.versions.append(Version(0))

    @property
    def tip(self) -> int:
        return max(i for i, version in enumerate(self.versions) if not version.abandoned)

    def in_state(self, *states: GroupState) -> list[str]:
        return [name for name, state in self.groups.items() if state in states]

    def running(self, name: str | None = None) -> list[str]:
        return [i for i, e in self.episodes.items() if e.status is Status.RUNNING and name in (None, e.group)]

    @rule()
    def open_group(self) -> None:
        name = f"g{len(self.groups)}"
        self.do("open_group", group=group(name))
        self.groups[name] = GroupState.OPEN

    @precondition(lambda self: self.in_state(GroupState.OPEN))
    @rule(data=st.data(), member=st.integers(0, 1))
    def start(self, data: st.DataObject, member: int) -> None:
        of = data.draw(st.sampled_from(self.in_state(GroupState.OPEN)))
        earlier = [e for e in self.episodes.values() if (e.group, e.member) == (of, member)]
        if earlier and (earlier[-1].status is Status.RUNNING or earlier[-1].status in SCORED_STATUSES):
            return
        name = f"{of}-{member}-{len(earlier)}"
        self.do("start_trajectory", trajectory=trajectory(name, of, member, len(earlier)))
        self.episodes[name] = Episode(of, member, len(earlier))

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def append(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.running()))
        sampled_by = self.episodes[name].sampled_by
        self.do("append", trajectory=name, **turn(len(sampled_by), self.tip))
        sampled_by.append(self.tip)

    @precondition(lambda self: self.running())
    @rule(data=st.data(), status=st.sampled_from(ENDS))
    def finish(self, data: st.DataObject, status: Status) -> None:
        name = data.draw(st.sampled_from(self.running()))
        self.do("finish_trajectory", trajectory=name, status=status, reward=1.0)
        self.episodes[name].status = status

    @precondition(lambda self: self.in_state(GroupState.OPEN))
    @rule(data=st.data(), state=st.sampled_from(CLOSINGS))
    def close(self, data: st.DataObject, state: GroupState) -> None:
        name = data.draw(st.sampled_from(self.in_state(GroupState.OPEN)))
        for left in self.running(name):
            self.episodes[left].status = Status.CANCELLED
        self.do("cancel_trajectories", group=name, reason="its deadline came")
        self.do("close_group", group=name, state=state)
        self.groups[name] = state

    @precondition(lambda self: self.in_state(GroupState.SCORING))
    @rule(data=st.data(), state=st.sampled_from(SCORED))
    def score(self, data: st.DataObject, state: GroupState) -> None:
        name = data.draw(st.sampled_from(self.in_state(GroupState.SCORING)))
        members = [i for i, e in self.episodes.items() if e.group == name and e.status in SCORED_STATUSES]
        scores = [Rewards(one, [0.5] * len(self.episodes[one].sampled_by)) for one in members]
        self.do("score_group", group=name, number=self.scorings, state=state, rewards=scores)
        self.scorings += 1
        self.groups[name] = state

    @rule(turns=st.integers(1, 2), status=st.sampled_from(ENDS))
    def a_whole_group(self, turns: int, status: Status) -> None:
        """The most frequent sequence of the rules above, so that histories advance further in as many steps."""
        name = f"g{len(self.groups)}"
        self.do("open_group", group=group(name))
        for member in range(2):
            one = f"{name}-{member}-0"
            episode = self.episodes[one] = Episode(name, member, 0)
            self.do("start_trajectory", trajectory=trajectory(one, name, member))
            for index in range(turns):
                self.do("append", trajectory=one, **turn(index, self.tip))
                episode.sampled_by.append(self.tip)
            self.do("finish_trajectory", trajectory=one, status=status)
            episode.status = status
        self.do("close_group", group=name, state=GroupState.READY)
        self.groups[name] = GroupState.READY

    @rule(count=st.integers(1, 3))
    def lease(self, count: int) -> None:
        got = self.do("lease_groups", run="r", owner="learner", count=count, timeout_s=60)
        free = len(self.in_state(GroupState.READY))
        if count > len(self.held) + free:
            assert got == []
            return
        assert got[: len(self.held)] == self.held
        assert len(got) == max(count, len(self.held))
        for name in got[len(self.held) :]:
            assert self.groups[name] is GroupState.READY
            self.groups[name] = GroupState.LEASED
        self.held = got

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        count = data.draw(st.integers(1, len(self.held)))
        batch, self.held = self.held[:count], self.held[count:]
        survivors = [i for i, e in self.episodes.items() if e.group in batch and e.status in SCORED_STATUSES]
        update = self.versions[self.tip].update + 1
        new = self.do(
            "acknowledge",
            run="r",
            owner="learner",
            groups=batch,
            update=update,
            parent=self.tip,
            items=[BatchItem(name, 2, 0, 0.0) for name in survivors],
            metrics={},
        )
        assert new == len(self.versions)
        self.versions.append(Version(update, batch))
        self.groups |= dict.fromkeys(batch, GroupState.CONSUMED)

    @rule()
    def checkpoint(self) -> None:
        self.do("set_checkpoint", run="r", version=self.tip, path=f"step-{self.tip}")
        self.versions[self.tip].checkpoint = True

    @precondition(lambda self: self.held)
    @rule()
    def release(self) -> None:
        self.do("release", run="r", owner="learner")
        self.groups |= dict.fromkeys(self.held, GroupState.READY)
        self.held = []

    @precondition(lambda self: self.in_state(GroupState.READY, GroupState.LEASED))
    @rule(data=st.data())
    def expire(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.in_state(GroupState.READY, GroupState.LEASED)))
        self.do("expire_groups", run="r", owner="learner", groups=[name], reason="too old")
        self.groups[name] = GroupState.EXPIRED
        self.held = [one for one in self.held if one != name]

    @rule()
    def lose_the_answer(self) -> None:
        """Repeat the last write, as after a dropped connection."""
        name, arguments = self.last
        if arguments:
            call(self.database, name, **arguments)

    @rule()
    def crash_and_resume(self) -> None:
        with self.database.read() as conn:
            found = latest_checkpoint(conn, "r")
        kept = [i for i, v in enumerate(self.versions) if v.checkpoint and not v.abandoned]
        assert (found.id if found else None) == (max(kept) if kept else None)
        self.do("rewind", run="r", version=found.id if found else None)
        newest = found.id if found else -1
        for episode in self.episodes.values():
            if episode.status is Status.RUNNING:
                episode.status = Status.CANCELLED
        back = set(self.in_state(GroupState.LEASED, GroupState.READY))
        for number, version in enumerate(self.versions):
            if number > newest and not version.abandoned:
                version.abandoned = True
                back |= set(version.groups)
        for name in self.in_state(GroupState.OPEN):
            self.groups[name] = GroupState.FAILED
        for name in back | set(self.in_state(GroupState.SCORING)):
            sampled_by = {v for e in self.episodes.values() if e.group == name for v in e.sampled_by}
            stale = any(self.versions[v].abandoned for v in sampled_by)
            if name in back or stale:
                self.groups[name] = GroupState.EXPIRED if stale else GroupState.READY
        self.held = []
        if found is None:
            self.first_version()

    @invariant()
    def the_store_agrees(self) -> None:
        with self.database.read() as conn:
            states = group_counts(conn, "r")
            total = accounting(conn, "r")
            stored = versions(conn, "r")
            turns = conn.execute(select(func.count()).select_from(step)).scalar_one()
            items = select(batch_item.c.version_id, heads.c.id).join(heads, heads.c.no == batch_item.c.trajectory_no)
            trained = conn.execute(items).all()
            assert double_consumed(conn, "r") == []
        assert +Counter(states) == Counter(self.groups.values())
        assert total["submitted"] == sum(total[part] for part in ("accepted", "filtered", "failed", "running"))
        assert total["submitted"] == len(self.episodes)
        assert turns == sum(len(episode.sampled_by) for episode in self.episodes.values())
        assert {i: (v.update, v.abandoned) for i, v in stored.items()} == {
            i: (v.update, v.abandoned) for i, v in enumerate(self.versions)
        }
        once = [name for version, name in trained if not self.versions[version].abandoned]
        assert len(once) == len(set(once))
        for version, name in trained:
            if not self.versions[version].abandoned:
                assert all(not self.versions[v].abandoned for v in self.episodes[name].sampled_by)


@pytest.mark.parametrize(
    ("backend", "examples"),
    [
        ("sqlite", 3),
        ("postgresql", 1),
        pytest.param("sqlite", 60, marks=pytest.mark.soak),
        pytest.param("postgresql", 20, marks=pytest.mark.soak),
    ],
)
def test_any_history(backend: str, examples: int, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    made = iter(range(1_000_000))
    if backend == "sqlite":

        def make() -> Database:
            return open_database(sqlite_store(tmp_path, f"{next(made)}.db"))
    else:
        server: Server = request.getfixturevalue("server")
        template: str = request.getfixturevalue("template")

        def make() -> Database:
            return open_database(server.url(server.create(template)))

    class InProcessPool(Machine):
        pass

    InProcessPool.make = staticmethod(make)
    run_state_machine_as_test(
        InProcessPool,
        settings=settings(
            max_examples=examples,
            stateful_step_count=50,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
