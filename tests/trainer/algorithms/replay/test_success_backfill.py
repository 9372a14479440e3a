"""DART's positive back-fill: golden vectors by hand, over a real store."""

from pathlib import Path
from random import Random

import pytest
from sqlalchemy import update
from turnwise.records import GroupState, Status
from turnwise.store.database import Database
from turnwise.store.schema import no_of, trajectory
from turnwise.tests.store.content.sealing import reseal
from turnwise.tests.store.making import play_scored, train
from turnwise.tests.trainer.algorithms.replay.replay_stores import replay_store, shown
from turnwise.trainer.algorithms.advantages.grpo import GRPO
from turnwise.trainer.algorithms.replay.success_backfill import SuccessBackfill
from turnwise.trainer.config.errors import ConfigError
from turnwise.trainer.config.loading import parse_config

FILTERED = GroupState.FILTERED
CHOSEN = {"name": "t", "environments": [{"id": "e"}], "replay_buffer": {"name": "success_backfill"}}


def test_the_newest_success_replaces_the_first_member(tmp_path: Path) -> None:
    with replay_store(tmp_path) as (database, reader):
        play_scored(database, "old", 0, [1.0, 0.0])
        train(database, ["old"], 1, 0)
        play_scored(database, "new", 1, [0.0, 1.0], FILTERED)
        play_scored(database, "failed", 2, [0.0, 0.0, 0.0, 0.0])
        play_scored(database, "mixed", 3, [1.0, 0.0], seed=1)
        buffer = SuccessBackfill()
        batch = buffer.batch(reader.load(["failed", "mixed"]), reader, 1, Random(0))
    assert shown(batch) == {
        "failed": [("new-1", "replay"), ("failed-1", "policy"), ("failed-2", "policy"), ("failed-3", "policy")],
        "mixed": [("mixed-0", "policy"), ("mixed-1", "policy")],
    }
    assert GRPO()(batch) == [[[0.75], [-0.25], [-0.25], [-0.25]], [[0.5], [-0.5]]]
    assert list(batch[0].group.trajectories[0].messages[1].logprobs) == [-0.5, -0.25]
    assert buffer.metrics() == {"filled_groups": 1, "left_out_groups": 0}


def branch(database: Database, name: str, parent: str) -> None:
    """Make a stored trajectory a branch of another one, from its first turn."""
    values = {"branched_from": no_of(trajectory, parent), "branched_at": 0}
    with database.transaction() as tx:
        tx.conn.execute(update(trajectory).where(trajectory.c.id == name).values(**values))
    reseal(database)


def test_a_member_from_which_others_branch_is_kept(tmp_path: Path) -> None:
    """The turns that a branch shares with its parent are trained on in the parent."""
    with replay_store(tmp_path) as (database, reader):
        play_scored(database, "old", 0, [1.0, 0.0], FILTERED)
        play_scored(database, "failed", 1, [0.0, 0.0, 0.25])
        branch(database, "failed-1", "failed-0")
        batch = SuccessBackfill().batch(reader.load(["failed"]), reader, 0, Random(0))
    assert shown(batch) == {"failed": [("failed-0", "policy"), ("old-0", "replay"), ("failed-2", "policy")]}
    assert [list(turns) for turns in batch[0].rewards] == [[0.0], [1.0], [0.25]]


def test_a_branch_and_a_fresh_member_are_no_replacement(tmp_path: Path) -> None:
    """Of the newest successes, one is trained on in the same batch, and one has turns of another trajectory."""
    with replay_store(tmp_path) as (database, reader):
        play_scored(database, "old", 0, [1.0, 0.0], FILTERED)
        play_scored(database, "tree", 1, [0.0, 1.0], FILTERED)
        branch(database, "tree-1", "tree-0")
        play_scored(database, "failed", 2, [0.0, 0.0])
        play_scored(database, "solved", 3, [1.0, 0.0])
        batch = SuccessBackfill().batch(reader.load(["failed", "solved"]), reader, 0, Random(0))
    assert shown(batch) == {
        "failed": [("old-0", "replay"), ("failed-1", "policy")],
        "solved": [("solved-0", "policy"), ("solved-1", "policy")],
    }


def test_groups_without_a_difference_are_left_out(tmp_path: Path) -> None:
    """Task 0 was never solved, every member of task 1 succeeded, and the members of task 2 failed differently."""
    with replay_store(tmp_path) as (database, reader):
        play_scored(database, "failed", 0, [0.0, 0.0])
        play_scored(database, "solved", 1, [1.0, 1.0], seed=1)
        play_scored(database, "partial", 2, [0.0, 0.25], seed=2)
        buffer = SuccessBackfill()
        batch = buffer.batch(reader.load(["failed", "solved", "partial"]), reader, 0, Random(0))
    assert shown(batch) == {"partial": [("partial-0", "policy"), ("partial-1", "policy")]}
    assert buffer.metrics() == {"filled_groups": 0, "left_out_groups": 2}


def test_a_failure_with_a_large_return_is_no_success(tmp_path: Path) -> None:
    """By the verdicts, all members of `failed` failed, and of `old` only the one with the small return succeeded."""
    with replay_store(tmp_path) as (database, reader):
        play_scored(database, "old", 0, [0.1, 0.65], FILTERED, verdicts=[True, False])
        play_scored(database, "lost", 1, [0.65, 0.8], FILTERED, verdicts=[False, False])
        play_scored(database, "failed", 2, [0.65, 0.8, 0.2], verdicts=[False, False, False])
        (filled,) = SuccessBackfill().batch(reader.load(["failed"]), reader, 0, Random(0))
    assert shown([filled]) == {"failed": [("old-0", "replay"), ("failed-1", "policy"), ("failed-2", "policy")]}
    assert [list(turns) for turns in filled.rewards] == [[0.1], [0.8], [0.2]]


def test_a_failed_group_stays_as_it_is_if_its_task_never_succeeded(tmp_path: Path) -> None:
    """The old members have large returns: one failed by verdict, one was truncated before the environment's verdict."""
    with replay_store(tmp_path) as (database, reader):
        play_scored(database, "old", 0, [0.65, 0.9], FILTERED, verdicts=[False, False])
        play_scored(database, "cut", 1, [0.65, 0.9], FILTERED, status=Status.TRUNCATED)
        play_scored(database, "failed", 2, [0.65, 0.2], verdicts=[False, False])
        fresh = reader.load(["failed"])
        assert SuccessBackfill().mix(fresh, reader, 0, Random(0)) == fresh


def test_min_return_separates_successes_from_failures(tmp_path: Path) -> None:
    with replay_store(tmp_path) as (database, reader):
        play_scored(database, "half", 0, [0.5, 0.5], FILTERED)
        play_scored(database, "failed", 1, [0.0, 0.25])
        fresh = reader.load(["failed"])
        assert SuccessBackfill(min_return=0.75).mix(fresh, reader, 0, Random(0)) == fresh
        assert SuccessBackfill(min_return=0.25).mix(fresh, reader, 0, Random(0)) == fresh
        (filled,) = SuccessBackfill().mix(fresh, reader, 0, Random(0))
    assert [list(turns) for turns in filled.rewards] == [[0.5], [0.25]]


def test_the_filter_that_hides_failed_groups_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"set `group_filters = \[\]`"):
        parse_config(CHOSEN)
    assert parse_config(CHOSEN | {"group_filters": []}).replay_buffer.max_staleness == 32
