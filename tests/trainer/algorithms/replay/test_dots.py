"""DOTS's rollout replay: the groups in the buffer, the share of a batch, and a resume that draws the same groups."""

from pathlib import Path
from random import Random

import pytest
from turnwise.records import GroupState, GroupSummary
from turnwise.store.database import Database
from turnwise.tests.store.making import call, play_scored, train
from turnwise.tests.trainer.algorithms.replay.replay_stores import replay_store, shown
from turnwise.trainer.algorithms.random_streams import Streams
from turnwise.trainer.algorithms.replay.dots import Dots, eligible


def consume(database: Database, update: int, returns: tuple[float, ...] = (0.0, 1.0), seed: int | None = None) -> None:
    """Store the group ``g{update}`` and train on it; each is of another task without a ``seed``."""
    name = f"g{update}"
    play_scored(database, name, update, returns, seed=update if seed is None else seed, version=update - 1)
    train(database, [name], update, update - 1)


def summary(name: str, task: str, *returns: float, oldest: int = 1) -> GroupSummary:
    return GroupSummary(name, task, GroupState.CONSUMED, 0, 2, oldest, returns)


def test_the_newest_group_of_each_task_is_eligible_if_its_returns_differ() -> None:
    buffer = [
        summary("e", "t1", 1.0, 1.0),
        summary("d", "t0", 1.0, 0.0, 0.0),
        summary("c", "t1", 1.0, 0.0),
        summary("b", "t0", 0.0, 1.0),
        summary("a", "t2", 0.0, 0.0),
        summary("0", "t3", 0.0, 1.0, oldest=0),
    ]
    assert [one.id for one in eligible(buffer, 1)] == ["d", "c"]
    assert [one.id for one in eligible(buffer, 0)] == ["d", "c", "0"]


@pytest.mark.parametrize(("fresh_share", "reused"), [(1.0, 0), (0.75, 1), (0.5, 2), (0.4, 3), (0.1, 4)])
def test_a_batch_has_the_fresh_share(tmp_path: Path, fresh_share: float, reused: int) -> None:
    """Two fresh groups, and four in the buffer: round(2 (1 - s) / s) of them, as long as there are so many."""
    with replay_store(tmp_path) as (database, reader):
        for update in range(1, 5):
            consume(database, update)
        play_scored(database, "f0", 5, [0.0, 1.0], seed=5, version=4)
        play_scored(database, "f1", 6, [1.0, 1.0], seed=6, version=4)
        buffer = Dots(fresh_share=fresh_share)
        batch = shown(buffer.batch(reader.load(["f0", "f1"]), reader, 4, Random(0)))
    assert list(batch)[:2] == ["f0", "f1"]
    added = {name: members for name, members in batch.items() if name.startswith("g")}
    assert len(added) == reused
    assert {source for members in added.values() for _, source in members} <= {"replay"}
    assert {source for name in ("f0", "f1") for _, source in batch[name]} == {"policy"}
    assert buffer.metrics() == {"eligible_groups": 4, "reused_groups": reused}


def test_capacity_and_staleness_bound_the_buffer(tmp_path: Path) -> None:
    """Update 4 of 6 consumed a group without a difference, and updates 3 and 5 groups of one task."""
    with replay_store(tmp_path) as (database, reader):
        for update in range(1, 7):
            consume(database, update, (1.0, 1.0) if update == 4 else (0.0, 1.0), seed=3 if update == 5 else None)
        found = {}
        for options in ({}, {"capacity": 5}, {"capacity": 1}, {"max_staleness": 5}, {"max_staleness": 0}):
            buffer = Dots(fresh_share=0.01, **options)
            fresh = reader.load(["g6"])[:1]
            mixed = buffer.mix(fresh, reader, 6, Random(0))[1:]
            found[str(options)] = sorted(one.group.id for one in mixed)
            stored = [message for one in mixed for message in one.group.trajectories[0].messages if any(message.mask)]
            assert all(list(message.logprobs) == [-0.5, -0.25] for message in stored)
    assert found == {
        "{}": ["g1", "g2", "g5", "g6"],
        "{'capacity': 5}": ["g2", "g5", "g6"],
        "{'capacity': 1}": ["g6"],
        "{'max_staleness': 5}": ["g2", "g5", "g6"],
        "{'max_staleness': 0}": [],
    }


def test_a_resumed_run_draws_the_same_groups(tmp_path: Path) -> None:
    """The run is taken back from update 6 to its checkpoint of update 4: the next batches reuse the same groups."""
    with replay_store(tmp_path) as (database, reader):
        streams = Streams(3)

        def next_update(update: int) -> list[str]:
            stream = streams.of("replay_buffer")
            drawn = [one.group.id for one in Dots(fresh_share=0.25).mix(reader.load(["g1"]), reader, update, stream)]
            return drawn[1:]

        for update in range(1, 5):
            consume(database, update)
        saved = streams.state_dict()
        first = []
        for update in (4, 5):
            first.append(next_update(update))
            consume(database, update + 1)
        assert call(database, "rewind", run="r", version=4)["versions_abandoned"] == 2
        resumed = Streams(3)
        resumed.load_state_dict(saved)
        streams = resumed
        again = [next_update(4)]
        assert call(database, "lease_groups", run="r", owner="learner", count=1, timeout_s=60) == ["g5"]
        new = {"run": "r", "owner": "learner", "groups": ["g5"], "items": [], "metrics": {}}
        assert call(database, "acknowledge", update=5, parent=4, **new) == 7
        again.append(next_update(5))
    assert again == first
    assert len(first[0]) == len(first[1]) == 3
