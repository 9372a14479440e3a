"""Retention removes what the policy does not keep, and nothing that a surviving update or the queue needs."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, func, inspect, select, update
from turnwise.store.database import Database, open_database
from turnwise.store.errors import Pruned
from turnwise.store.maintenance.collect import collect
from turnwise.store.maintenance.integrity import check_store
from turnwise.store.maintenance.policy import BadPolicy, RetentionPolicy, read_policy
from turnwise.store.maintenance.prune import Floor, candidates
from turnwise.store.maintenance.search_index import update_index
from turnwise.store.queries import load_groups, load_trajectory
from turnwise.store.schema import blob, step, step_image, trajectory
from turnwise.tests.store.content.sealing import reseal
from turnwise.tests.store.maintenance.populated import play_illustrated, populate
from turnwise.tests.store.making import (
    call,
    create_run,
    items,
    play_group,
    play_scored,
    sqlite_store,
    start,
    states,
    train,
)

EVERYTHING = RetentionPolicy(keep_versions=1, keep_successes=False, grace_s=0)


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Database]:
    """Yield a new SQLite store, for what does not depend on the database."""
    with closing(open_database(sqlite_store(tmp_path))) as opened:
        yield opened


def pruned(database: Database) -> set[str]:
    with database.read() as conn:
        return set(conn.execute(select(trajectory.c.id).where(trajectory.c.pruned_at.is_not(None))).scalars())


def count(database: Database, table: Any) -> int:
    with database.read() as conn:
        return int(conn.execute(select(func.count()).select_from(table)).scalar_one())


def train_updates(database: Database, updates: int) -> None:
    """Train one group per update; group ``g{n}`` is sampled by version n - 1 and consumed by update n."""
    start(database)
    for number in range(1, updates + 1):
        play_group(database, f"g{number}", version=number - 1)
        train(database, [f"g{number}"], number, number - 1)


def test_the_content_of_old_versions_is_removed(database: Database) -> None:
    train_updates(database, 4)
    call(database, "set_checkpoint", run="r", version=3, path="checkpoints/3")
    found = collect(database, RetentionPolicy(keep_versions=2, keep_successes=False, grace_s=0))
    # Versions 3 and 4 are the newest two; updates 3 and 4 consumed the groups g3 and g4.
    assert pruned(database) == {"g1-0", "g1-1", "g2-0", "g2-1"}
    assert found.pruned == 4
    with pytest.raises(Pruned, match="g1-0"):
        load_trajectory(database, "g1-0")
    with pytest.raises(Pruned):
        load_groups(database, ["g1"])
    assert load_groups(database, ["g3", "g4"])[0].trajectories
    assert list(check_store(database, content=True)) == []
    with database.read() as conn:
        first = select(step.c.action, step.c.reward, step.c.observation).where(step.c.trajectory_no == 1)
        kept = conn.execute(first.limit(1)).one()
    assert tuple(kept) == ("click 0", 0.5, None)
    assert collect(database, RetentionPolicy(keep_versions=2, keep_successes=False, grace_s=0)).pruned == 0


def test_groups_since_the_newest_checkpoint_stay(plain: Database) -> None:
    """A resume returns them to the queue."""
    train_updates(plain, 3)
    call(plain, "set_checkpoint", run="r", version=1, path="checkpoints/1")
    collect(plain, EVERYTHING)
    assert pruned(plain) == {"g1-0", "g1-1"}
    call(plain, "rewind", run="r", version=1)
    assert [len(one.trajectories) for one in load_groups(plain, ["g2"])] == [2]


def test_what_another_run_uses_stays(plain: Database) -> None:
    """An offline run counts its own versions, trains on the groups of this run, and may still read the others."""
    train_updates(plain, 4)
    call(plain, "set_checkpoint", run="r", version=4, path="checkpoints/4")
    create_run(plain, "offline", config={"offline": {"run": "r"}})
    call(plain, "add_version", run="offline", update=0, parent=None)
    reuse: dict[str, Any] = {"run": "offline", "owner": "learner", "groups": [], "reused": ["g1"]}
    call(
        plain,
        "acknowledge",
        **reuse,
        update=1,
        parent=0,
        items=[replace(one, fresh=False) for one in items(["g1"])],
        metrics={},
    )
    collect(plain, EVERYTHING)
    assert pruned(plain) == set(), "the offline run has not ended"
    call(plain, "finish_run", run="offline", status="finished")
    collect(plain, EVERYTHING, run="offline")
    assert pruned(plain) == set(), "only its own trajectories are pruned"
    collect(plain, EVERYTHING)
    # The newest update consumed g4.
    assert pruned(plain) == {f"g{number}-{member}" for number in (2, 3) for member in range(2)}


def test_a_group_whose_content_is_gone_is_not_ready_again(database: Database) -> None:
    """A resume from an older checkpoint than the newest, which was broken."""
    train_updates(database, 3)
    call(database, "set_checkpoint", run="r", version=3, path="checkpoints/3")
    collect(database, EVERYTHING)
    call(database, "rewind", run="r", version=0)
    assert states(database) == {"expired": 3}
    assert call(database, "lease_groups", run="r", owner="learner", count=1, timeout_s=60) == []


def test_trajectories_to_prune_are_found_by_an_index(plain: Database) -> None:
    """Each step of a collection reads the trajectories from where the step before ended."""
    plans: list[str] = []

    def explain(conn: Any, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if statement.startswith("SELECT trajectory.no"):
            plans.extend(row[-1] for row in cursor.connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters))

    event.listen(plain.engine, "before_cursor_execute", explain)
    assert list(candidates(plain, Floor(1, 5, 5), success=False)) == []
    assert plans[0].startswith("SEARCH trajectory USING INDEX ix_trajectory_whole (run_no=? AND no>?)")
    assert [plan for plan in plans if "SCAN" in plan or "TEMP B-TREE" in plan] == []


def test_the_queue_successes_and_experts_stay(plain: Database) -> None:
    populate(plain)
    with plain.transaction() as tx:
        tx.conn.execute(update(trajectory).where(trajectory.c.id == "b-0").values(success=False))
    before = {"a-1", "b-1"}
    collect(plain, RetentionPolicy(keep_versions=1, grace_s=0))
    assert not pruned(plain) & before
    assert not pruned(plain) & {"open-0", "ready-0", "leased-0", "c-0"}


def test_successes_are_those_of_the_verdict_or_without_one_of_the_return(database: Database) -> None:
    """An old group of three: a success with a small return, a failure with a large one, and two without a verdict."""
    start(database)
    ends = [(0.1, True), (0.9, False), (0.9, None), (0.4, None)]
    play_scored(database, "old", 0, [total for total, _ in ends], verdicts=[verdict for _, verdict in ends])
    with database.transaction() as tx:
        for member, (total, _) in enumerate(ends):
            tx.conn.execute(update(trajectory).where(trajectory.c.id == f"old-{member}").values(reward=total))
    reseal(database)
    train(database, ["old"], 1, 0)
    for number in (2, 3):
        play_group(database, f"new{number}", version=number - 1)
        train(database, [f"new{number}"], number, number - 1)
    call(database, "set_checkpoint", run="r", version=3, path="checkpoints/3")
    collect(database, RetentionPolicy(keep_versions=1, grace_s=0))
    assert pruned(database) & {f"old-{member}" for member in range(4)} == {"old-1", "old-3"}


@pytest.mark.parametrize("interval", [0, 1])
def test_screenshots_of_a_pruned_trajectory(plain: Database, interval: int) -> None:
    start(plain)
    play_illustrated(plain, "g1")
    train(plain, ["g1"], 1, 0)
    play_group(plain, "g2", version=1)
    train(plain, ["g2"], 2, 1)
    call(plain, "set_checkpoint", run="r", version=2, path="checkpoints/2")
    policy = RetentionPolicy(keep_versions=1, keep_successes=False, screenshot_interval=interval, grace_s=0)
    collect(plain, policy)
    assert "g1-0" in pruned(plain)
    assert bool(count(plain, step_image)) is bool(interval)
    assert bool(count(plain, blob)) is bool(interval)
    assert list(check_store(plain, content=True)) == []


def test_a_dry_run_changes_nothing(plain: Database) -> None:
    train_updates(plain, 3)
    call(plain, "set_checkpoint", run="r", version=3, path="checkpoints/3")
    found = collect(plain, EVERYTHING, dry_run=True)
    assert found.pruned == 4
    assert pruned(plain) == set()
    assert collect(plain, EVERYTHING).pruned == 4


def test_a_dry_run_does_not_decide_whether_the_store_is_too_large(
    plain: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    train_updates(plain, 3)
    call(plain, "set_checkpoint", run="r", version=3, path="checkpoints/3")
    monkeypatch.setattr("turnwise.store.maintenance.collect.LOW", 0.0)
    small = RetentionPolicy(grace_s=0).model_copy(update={"max_size": 2**17})
    found = collect(plain, small, dry_run=True)
    assert (found.pruned, found.is_over) == (4, False)
    assert collect(plain, small).is_over


def test_an_altered_trajectory_is_not_pruned(plain: Database) -> None:
    train_updates(plain, 3)
    call(plain, "set_checkpoint", run="r", version=3, path="checkpoints/3")
    with plain.transaction() as tx:
        tx.conn.execute(update(step).where(step.c.trajectory_no == 1, step.c.idx == 0).values(action="altered"))
    found = collect(plain, EVERYTHING)
    assert found.altered == ["g1-0"]
    assert pruned(plain) == {"g1-1", "g2-0", "g2-1"}
    assert [one.table for one in check_store(plain)] == ["step"]


def test_a_store_below_its_size_keeps_everything(plain: Database) -> None:
    train_updates(plain, 3)
    call(plain, "set_checkpoint", run="r", version=3, path="checkpoints/3")
    found = collect(plain, RetentionPolicy(max_size="100MiB"))
    assert (found.pruned, found.is_over) == (0, False)


def test_the_turns_of_pruned_trajectories_go_last(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    train_updates(database, 3)
    call(database, "set_checkpoint", run="r", version=3, path="checkpoints/3")
    monkeypatch.setattr("turnwise.store.maintenance.collect.LOW", 0.0)
    monkeypatch.setattr("turnwise.store.maintenance.collect.HIGH", 0.0)
    assert update_index(database)
    found = collect(database, RetentionPolicy(max_size=2**20, grace_s=0))
    with database.read() as conn:
        assert not inspect(conn).has_table("search_index")
    assert (found.pruned, found.turns_deleted) == (4, 4)
    assert count(database, step) == 4
    assert list(check_store(database, content=True)) == []
    with pytest.raises(Pruned):
        load_trajectory(database, "g1-0")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"max_size": "much"}, "not a size"),
        ({"max_size": "9" * 400 + "GB"}, "more than any disk holds"),
        ({"max_size": "9" * 5000}, "more than any disk holds"),
        ({"keep_versions": 0}, "`--keep-versions` 0"),
        ({"max_size": "10"}, "`--max-size` 10"),
        ({"grace_s": float("inf")}, "`--grace-s` inf"),
    ],
)
def test_an_invalid_policy_is_rejected(values: dict[str, object], message: str) -> None:
    with pytest.raises(BadPolicy, match=message):
        read_policy(**values)


@pytest.mark.parametrize(
    ("text", "size"), [("1GiB", 2**30), ("1.5 MB", 3 * 2**19), ("2097152", 2**21), ("3g", 3 * 2**30)]
)
def test_a_size_has_a_unit(text: str, size: int) -> None:
    assert read_policy(max_size=text).max_size == size


def test_content_stays_for_the_grace_period(plain: Database) -> None:
    start(plain)
    play_illustrated(plain, "g1")
    train(plain, ["g1"], 1, 0)
    play_group(plain, "g2", version=1)
    train(plain, ["g2"], 2, 1)
    call(plain, "set_checkpoint", run="r", version=2, path="checkpoints/2")
    blobs = count(plain, blob)
    assert blobs
    collect(plain, EVERYTHING.model_copy(update={"grace_s": timedelta(hours=1).total_seconds()}))
    assert count(plain, blob) == blobs
    collect(plain, EVERYTHING)
    assert count(plain, blob) == 0
