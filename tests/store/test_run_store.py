"""The store of a run.

A read is of one snapshot, retried while the database is locked or away, off the event loop. A group that was loaded to
be scored is kept for the learner: it equals the stored one, and the memory has a bound.
"""

import asyncio
import sqlite3
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import event, func, select
from turnwise.records import Group, GroupState
from turnwise.store import queries
from turnwise.store.database import Database, open_database
from turnwise.store.database_errors import retried
from turnwise.store.errors import StoreUnavailable
from turnwise.store.operations import Rewards
from turnwise.store.run_store import RecentGroups, RunStore
from turnwise.store.schema import run
from turnwise.store.writing.client import StoreClient
from turnwise.store.writing.commit_queue import CommitQueue
from turnwise.tests.store.making import call, create_run, group, play, sqlite_store


@pytest.fixture
def local(tmp_path: Path) -> Database:
    database = open_database(sqlite_store(tmp_path))
    create_run(database)
    call(database, "open_group", group=group())
    return database


async def reads_only(_: object) -> list[Any]:
    raise AssertionError("nothing is written here")


def run_store(database: Database) -> RunStore:
    return RunStore("r", database, StoreClient(reads_only))


def test_a_read_is_retried_while_the_database_is_unreachable(local: Database) -> None:
    left = 3

    def fail(*_: Any) -> None:
        nonlocal left
        if left:
            left -= 1
            raise sqlite3.OperationalError("database is locked")

    event.listen(local.engine, "do_execute", fail)
    assert asyncio.run(run_store(local).read(queries.active_groups))[GroupState.OPEN] == 1
    assert left == 0


def test_a_slow_read_does_not_block_the_event_loop(local: Database) -> None:
    turned = threading.Event()
    waited: list[bool] = []
    event.listen(local.engine, "do_execute", lambda *_: waited.append(turned.wait(5)))

    async def scenario() -> None:
        reading = asyncio.create_task(run_store(local).read(queries.active_groups))
        asyncio.get_running_loop().call_later(0.01, turned.set)
        await reading

    asyncio.run(scenario())
    assert waited
    assert all(waited)


def test_a_database_that_stays_unreachable_is_an_error() -> None:
    calls = []

    def work() -> None:
        calls.append(1)
        raise StoreUnavailable("the store did not answer")

    with pytest.raises(StoreUnavailable):
        retried(work, timeout_s=0.2)
    assert len(calls) > 1


def test_the_queries_of_a_read_see_the_same_snapshot(database: Database) -> None:
    count = select(func.count()).select_from(run)
    create_run(database, "before")
    with database.read() as conn:
        assert conn.execute(count).scalar_one() == 1
        create_run(database, "meanwhile")
        assert conn.execute(count).scalar_one() == 1
    with database.read() as conn:
        assert conn.execute(count).scalar_one() == 2


@pytest.fixture
def closed(database: Database) -> Database:
    """Return a store with the closed groups ``a`` and ``b``, of two members each."""
    create_run(database)
    for name in ("a", "b"):
        call(database, "open_group", group=group(name))
        for member in range(2):
            play(database, f"{name}/{member}", name, member)
        call(database, "close_group", group=name, state=GroupState.SCORING)
    return database


def tables_read(database: Database) -> list[str]:
    """Return a list to which the table of every later query is added."""
    found: list[str] = []

    def note(_conn: object, _cursor: object, statement: str, *_: object) -> None:
        words = statement.split()
        found.append(words[words.index("FROM") + 1] if "FROM" in words else "")

    event.listen(database.engine, "before_cursor_execute", note)
    return found


def test_a_group_that_was_scored_is_leased_without_reading_its_steps_again(closed: Database) -> None:
    async def scenario() -> None:
        scorer, fresh = (RunStore("r", closed, StoreClient(reads_only)) for _ in range(2))
        await scorer.load(["a", "b"])
        for number, name in enumerate(("a", "b")):
            scores = [Rewards(f"{name}/{member}", [1.0, float(member)], []) for member in range(2)]
            call(closed, "score_group", group=name, number=number, state=GroupState.READY, rewards=scores)
        call(closed, "lease_groups", run="r", owner="r/1", count=2, timeout_s=60.0)
        read = tables_read(closed)
        kept = await scorer.load_scored(["a", "b"])
        assert "step" not in read
        stored = await fresh.load_scored(["a", "b"])
        assert repr(kept) == repr(stored), "messages hold arrays, which have no equality of their own"
        assert "step" in read
        assert kept[0].group.state is GroupState.LEASED
        assert [list(one) for one in kept[1].rewards] == [[1.0, 0.0], [1.0, 1.0]]
        read.clear()
        await scorer.load_scored(["a"])
        assert "step" in read, "a group is kept until it is leased, not longer"

    asyncio.run(scenario())


def test_a_group_kept_without_texts_is_read_again_for_a_learner_that_needs_them(closed: Database) -> None:
    async def scenario() -> None:
        store = RunStore("r", closed, StoreClient(reads_only))
        await store.load(["a"])
        call(closed, "score_group", group="a", number=0, state=GroupState.READY)
        (scored,) = await store.load_scored(["a"], texts=True)
        assert [step.observation for step in scored.group.trajectories[0].steps] == ["page 0", "page 1"]

    asyncio.run(scenario())


def test_the_oldest_groups_are_dropped_above_the_bound(closed: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    async def load() -> list[Group]:
        return await RunStore("r", closed, StoreClient(reads_only)).load(["a"])

    (one,) = asyncio.run(load())
    messages = [message for member in one.trajectories for message in member.messages]
    steps = [step for member in one.trajectories for step in member.steps]
    size = 13 * sum(len(message.tokens) for message in messages) + 4 * sum(len(step.action) for step in steps)
    monkeypatch.setattr("turnwise.store.run_store.RECENT_BYTES_MAX", 3 * (size + 1024 * (len(messages) + len(steps))))
    recent = RecentGroups()
    names = [str(number) for number in range(5)]
    for name in names:
        recent.add(replace(one, id=name), texts=False)
    recent.add(replace(one, id="4"), texts=False)
    assert list(recent.take(names, texts=False)) == ["2", "3", "4"]
    assert recent.take(names, texts=False) == {}
    for name in names:
        recent.add(replace(one, id=name), texts=False)
    assert len(recent.take(names, texts=False)) == 3, "a taken group no longer counts"


def test_a_filtered_group_is_not_kept_and_a_kept_group_cannot_be_changed(closed: Database) -> None:
    async def scenario() -> None:
        writer = CommitQueue(closed)
        store = RunStore("r", closed, StoreClient(writer.run))
        loaded, _ = await store.load(["a", "b"])
        with pytest.raises(ValueError, match="read-only"):
            np.asarray(loaded.trajectories[0].messages[1].logprobs)[:] = 0.0
        await store.score_group("a", 0, GroupState.FILTERED, "all rewards are equal")
        read = tables_read(closed)
        await store.load_scored(["a", "b"])
        assert read.count("step") == 1
        writer.close()

    asyncio.run(scenario())
