"""Each write: its effect, its idempotence, and its conflicts with stored rows."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from turnwise.records import GroupState, Purpose, Status
from turnwise.store.content.rows import Tally, rows_of
from turnwise.store.database import Database
from turnwise.store.errors import LeaseLost, NotFound, StoreConflict
from turnwise.store.operations.groups import LATE
from turnwise.store.queries import (
    accounting,
    final_observation,
    find_run,
    latest_checkpoint,
    list_metrics,
    list_trajectories,
    load_group_heads,
    load_groups,
    load_trajectory,
    load_update,
    running_tallies,
    versions,
)
from turnwise.tests.store.making import (
    call,
    contents,
    create_run,
    double_consumed,
    group,
    items,
    play,
    play_group,
    records,
    start,
    states,
    tally,
    train,
    trajectory,
    turn,
)

RUN: dict[str, Any] = {"run": "r", "config": {}, "config_hash": "c", "kind": "train", "code_version": "0"}


def test_an_episode_round_trips(database: Database) -> None:
    start(database)
    play_group(database, "g")
    stored = load_trajectory(database, "g-0")
    expected = [records(index) for index in range(2)]
    assert list(stored.steps) == [step for steps, _ in expected for step in steps]
    assert [list(message.tokens) for message in stored.messages] == [
        list(message.tokens) for _, messages in expected for message in messages
    ]
    assert [message.parent for message in stored.messages] == [None, 0, 1, 2]
    assert stored.status is Status.COMPLETED
    assert stored.success is True
    assert final_observation(database, "g-0") == "the end of g-0"
    with database.read() as conn:
        head = list_trajectories(conn, run="r", descending=False)[0]
    assert (head.n_steps, head.n_tokens, head.min_version, head.max_version) == (2, 4, 0, 0)


def test_every_write_may_be_repeated(database: Database) -> None:
    """Each write of a run is made twice: the second changes no row, except the times that it renews."""
    acknowledged = {
        "run": "r",
        "owner": "o",
        "groups": ["g"],
        "update": 1,
        "parent": 0,
        "items": items(["g"]),
        "metrics": {},
    }
    life: list[tuple[str, dict[str, Any]]] = [
        ("create_run", RUN),
        ("add_version", {"run": "r", "update": 0, "parent": None}),
        ("open_group", {"group": group()}),
        ("start_trajectory", {"trajectory": trajectory("g-0")}),
        ("grow_group", {"group": "g", "size": 3}),
        ("start_trajectory", {"trajectory": trajectory("g-1", member=1)}),
        ("append", {"trajectory": "g-0", **turn(0)}),
        ("append", {"trajectory": "g-1", **turn(0)}),
        ("finish_trajectory", {"trajectory": "g-0", "status": Status.COMPLETED, "reward": 1.0}),
        ("cancel_trajectories", {"group": "g", "reason": "its worker died"}),
        ("append", {"trajectory": "g-0", **turn(0)}),
        ("close_group", {"group": "g", "state": GroupState.READY}),
        ("lease_groups", {"run": "r", "owner": "o", "count": 1, "timeout_s": 60}),
        ("acknowledge", acknowledged),
        ("close_group", {"group": "g", "state": GroupState.READY}),
        ("set_checkpoint", {"run": "r", "version": 1, "path": "step-1"}),
        ("add_metrics", {"run": "r", "update": 1, "metrics": {"loss": float("nan")}}),
        ("release", {"run": "r", "owner": "o"}),
        ("request_stop", {"run": "r"}),
        ("rewind", {"run": "r", "version": 1}),
        ("finish_run", {"run": "r", "status": "stopped"}),
    ]
    renewed = {"lease": ("expires_at",), "metric": ("created_at",)}
    for name, arguments in life:
        first = call(database, name, **arguments)
        before = contents(database, without=renewed)
        again = call(database, name, **arguments)
        assert contents(database, without=renewed) == before, name
        if name not in ("rewind", "cancel_trajectories"):
            assert again == first, name
    assert states(database) == {"consumed": 1}
    with database.read() as conn:
        assert list_metrics(conn, "r") == [{"update": 1, "loss": None}]
        assert find_run(conn, "r").status == "stopped"


def test_numbers_of_numpy_are_numbers(database: Database) -> None:
    start(database)
    call(database, "open_group", group=group())
    call(database, "start_trajectory", trajectory=trajectory("t"))
    [played], messages = records(0)
    odd: dict[str, Any] = {
        "reward": np.float32(0.5),
        "terminated": np.bool_(True),
        "reward_parts": {"a": np.float32(1)},
    }
    step = replace(played, **odd)
    call(database, "append", trajectory="t", rows=rows_of([step], messages))
    call(
        database,
        "finish_trajectory",
        trajectory="t",
        status=Status.COMPLETED,
        reward=np.float32(2),
        success=np.bool_(1),
    )
    call(database, "add_metrics", run="r", update=0, metrics={"a": np.float32("nan"), "b": [np.int64(3)]})
    stored = load_trajectory(database, "t")
    assert (stored.reward, stored.success, stored.steps[0].reward_parts) == (2.0, True, {"a": 1.0})
    with database.read() as conn:
        assert list_metrics(conn, "r") == [{"update": 0, "a": None, "b": [3]}]


def test_a_run_is_its_name_and_config(database: Database) -> None:
    create_run(database)
    call(database, "request_stop", run="r")
    create_run(database)
    with database.read() as conn:
        assert find_run(conn, "r").stop_requested is False
    create_run(database, config={"seed": 1, "budget": 9})
    with database.read() as conn:
        assert find_run(conn, "r").config == {"seed": 1, "budget": 9}
    with pytest.raises(StoreConflict, match="another config"):
        create_run(database, config_hash="other")
    call(database, "finish_run", run="r", status="finished")
    with pytest.raises(StoreConflict, match="is finished"):
        create_run(database)


def test_a_member_is_retried_and_its_last_attempt_counts(database: Database) -> None:
    start(database)
    call(database, "open_group", group=group())
    play(database, "a", member=0, status=Status.ENV_ERROR)
    play(database, "b", member=0, attempt=1)
    play(database, "c", member=1)
    with pytest.raises(StoreConflict, match="attempt 0 of member 0"):
        call(database, "start_trajectory", trajectory=trajectory("d", member=0))
    call(database, "close_group", group="g", state=GroupState.READY)
    assert [one.id for one in load_groups(database, ["g"])[0].trajectories] == ["b", "c"]
    with database.read() as conn:
        assert accounting(conn, "r") == {"submitted": 3, "accepted": 2, "filtered": 0, "failed": 1, "running": 0}


def test_nothing_joins_a_closed_group(database: Database) -> None:
    start(database)
    play_group(database, "g", GroupState.FILTERED)
    with pytest.raises(StoreConflict, match="is filtered"):
        call(database, "start_trajectory", trajectory=trajectory("late", member=0, attempt=1))
    with pytest.raises(StoreConflict, match="ended as completed"):
        call(database, "append", trajectory="g-0", **turn(2))
    with pytest.raises(StoreConflict, match="cannot end as truncated"):
        call(database, "finish_trajectory", trajectory="g-0", status=Status.TRUNCATED)
    with pytest.raises(StoreConflict, match="cannot change from `filtered` to `ready`"):
        call(database, "close_group", group="g", state=GroupState.READY)
    with pytest.raises(StoreConflict, match="cannot change from `filtered` to `expired`"):
        call(database, "expire_groups", run="r", owner="o", groups=["g"], reason="too old")


@pytest.mark.parametrize(
    ("counted", "message"),
    [
        ({"n_steps": 3}, "the store has 2 steps, but 3 were written"),
        ({"n_partial": 1}, "the store has 0 partial turns, but 1 were written"),
        ({"n_steps": 1}, "the store has 2 steps, but 1 were written"),
    ],
)
def test_a_trajectory_does_not_end_with_a_part_of_it_lost(
    database: Database, counted: dict[str, Any], message: str
) -> None:
    start(database)
    call(database, "open_group", group=group())
    call(database, "start_trajectory", trajectory=trajectory("t"))
    for index in range(2):
        call(database, "append", trajectory="t", **turn(index))
    wrong: Tally = replace(tally(2), **counted)
    with pytest.raises(StoreConflict, match=message):
        call(database, "finish_trajectory", trajectory="t", status=Status.COMPLETED, tally=wrong)
    assert load_trajectory(database, "t").status is Status.RUNNING
    call(database, "finish_trajectory", trajectory="t", status=Status.COMPLETED, tally=tally(2))
    assert load_trajectory(database, "t").status is Status.COMPLETED


def test_a_group_that_closes_ends_the_members_that_still_play(database: Database) -> None:
    start(database)
    call(database, "open_group", group=group())
    call(database, "start_trajectory", trajectory=trajectory("g-0"))
    assert call(database, "cancel_trajectories", group="g", reason="its deadline came", status=Status.TIMEOUT) == 1
    call(database, "start_trajectory", trajectory=trajectory("g-0.1", attempt=1))
    call(database, "append", trajectory="g-0.1", **turn(0))
    call(database, "close_group", group="g", state=GroupState.FAILED)
    assert load_trajectory(database, "g-0").status is Status.TIMEOUT
    late = load_trajectory(database, "g-0.1")
    assert (late.status, late.error, len(late.steps)) == (Status.CANCELLED, LATE, 1)
    with pytest.raises(StoreConflict, match="ended as cancelled"):
        call(database, "append", trajectory="g-0.1", **turn(1))


@pytest.mark.parametrize("appended", [0, 1])
def test_a_cancelled_trajectory_has_the_turns_that_followed_its_tally(
    database: Database, monkeypatch: pytest.MonkeyPatch, appended: int
) -> None:
    """Its turns are read before the transaction, and only those of a trajectory that grew are read in it."""
    start(database)
    call(database, "open_group", group=group())
    call(database, "start_trajectory", trajectory=trajectory("g-0"))
    call(database, "append", trajectory="g-0", **turn(0))
    tallies = running_tallies(database, group="g")
    for index in range(appended):
        call(database, "append", trajectory="g-0", **turn(1 + index))
    if not appended:
        monkeypatch.delattr("turnwise.store.operations.endings.turn_rows")
    assert call(database, "cancel_trajectories", group="g", reason="late", tallies=tallies) == 1
    assert len(load_trajectory(database, "g-0").steps) == 1 + appended
    with database.read() as conn:
        (row,) = list_trajectories(conn, group="g")
    assert (row.n_steps, row.n_tokens) == (1 + appended, (1 + appended) * turn(0)["rows"].n_tokens)


def test_missing_rows_are_named(database: Database) -> None:
    with pytest.raises(NotFound, match="no run nobody"):
        call(database, "add_version", run="nobody", update=0, parent=None)
    with pytest.raises(NotFound, match="no group nowhere"):
        call(database, "start_trajectory", trajectory=trajectory("t", "nowhere"))
    with pytest.raises(NotFound, match="no trajectory t "):
        call(database, "append", trajectory="t", **turn(0))
    with pytest.raises(NotFound, match="no trajectory t "):
        load_trajectory(database, "t")


def test_groups_are_leased_whole_oldest_first_all_or_none(database: Database) -> None:
    start(database)
    for name in ("b", "a", "c"):
        play_group(database, name)
    call(database, "open_group", group=group("eval", purpose=Purpose.EVAL))
    play(database, "eval-0", "eval")
    call(database, "close_group", group="eval", state=GroupState.READY)
    assert call(database, "lease_groups", run="r", owner="o", count=4, timeout_s=60) == []
    assert call(database, "lease_groups", run="r", owner="o", count=2, timeout_s=60) == ["b", "a"]
    assert call(database, "lease_groups", run="r", owner="p", count=2, timeout_s=60) == []
    assert states(database) == {"leased": 2, "ready": 1}
    assert call(database, "lease_groups", run="r", owner="o", count=3, timeout_s=60) == ["b", "a", "c"]
    assert call(database, "release", run="r", owner="o") == ["b", "a", "c"]
    assert states(database) == {"ready": 3}


def test_an_expired_lease_goes_to_the_next_driver(database: Database) -> None:
    start(database)
    play_group(database, "g")
    assert call(database, "lease_groups", run="r", owner="dead", count=1, timeout_s=-1) == ["g"]
    assert call(database, "lease_groups", run="r", owner="alive", count=1, timeout_s=60) == ["g"]
    with pytest.raises(LeaseLost, match="dead no longer holds group g"):
        acknowledge(database, owner="dead")
    assert states(database) == {"leased": 1}
    with database.read() as conn:
        assert list(versions(conn, "r")) == [0]


def acknowledge(database: Database, **changes: Any) -> int:
    given = {
        "owner": "alive",
        "groups": ["g"],
        "update": 1,
        "parent": 0,
        "items": items(["g"]),
        "metrics": {},
    } | changes
    return int(call(database, "acknowledge", run="r", **given))


def test_a_batch_and_its_version_are_committed_together(database: Database) -> None:
    start(database)
    play_group(database, "g")
    play_group(database, "h")
    call(database, "lease_groups", run="r", owner="alive", count=2, timeout_s=60)
    before = contents(database)
    with pytest.raises(StoreConflict, match="declare it as reuse"):
        acknowledge(database, items=items(["h"]))
    with pytest.raises(StoreConflict, match="update 0 of run r did not make version 7"):
        acknowledge(database, parent=7)
    with pytest.raises(NotFound):
        acknowledge(database, items=items(["nowhere"]))
    assert contents(database) == before
    assert acknowledge(database) == 1
    with pytest.raises(StoreConflict, match="update 1 of run r already made version"):
        acknowledge(database, groups=["h"], items=items(["h"]))
    with pytest.raises(LeaseLost):
        acknowledge(database, update=2, parent=1)
    with pytest.raises(StoreConflict, match="in this batch twice"):
        acknowledge(database, update=2, parent=1, groups=["h"], items=items(["h"]) * 2)
    assert states(database) == {"consumed": 1, "leased": 1}
    with database.read() as conn:
        assert [item.trajectory for item in load_update(conn, "r", 1).members] == ["g-0", "g-1"]
        assert double_consumed(conn, "r") == []


def test_a_resume_records_the_keys_that_it_changes_with_their_update(database: Database) -> None:
    config: dict[str, Any] = {"seed": 1, "learner": {"learning_rate": 1e-3, "betas": [0.9, 0.99]}}
    create_run(database, config=config)
    create_run(database, config=config)
    changed = {**config, "learner": {**config["learner"], "learning_rate": 1e-4}, "max_steps": 9}
    create_run(database, config=changed, after_update=3)
    with database.read() as conn:
        found = find_run(conn, "r")
    assert found.config == changed
    keys = {"learner.learning_rate": [1e-3, 1e-4], "max_steps": [None, 9]}
    assert found.changes == [{"after_update": 3, "keys": keys}]


def test_a_failed_run_without_a_group_or_a_checkpoint_frees_its_name(database: Database) -> None:
    create_run(database, config={"seed": 1}, config_hash="old")
    with pytest.raises(StoreConflict, match="exists with another config"):
        create_run(database, config={"seed": 2}, config_hash="new")
    call(database, "finish_run", run="r", status="failed", error="no chat template")
    create_run(database, config={"seed": 2}, config_hash="new")
    with database.read() as conn:
        found = find_run(conn, "r")
    assert (found.config_hash, found.config, found.status, found.error) == ("new", {"seed": 2}, "running", "")
    call(database, "add_version", run="r", update=0, parent=None)
    call(database, "open_group", group=group("g"))
    call(database, "finish_run", run="r", status="failed")
    with pytest.raises(StoreConflict, match="exists with another config"):
        create_run(database, config={"seed": 1}, config_hash="old")


def test_a_resume_reverts_consumption_to_its_checkpoint(database: Database) -> None:
    """Versions: 0 (checkpoint) -> 1 -> 2. Groups sampled by 0 are ready again; groups sampled by 1 are kept, flagged,
    expired."""
    start(database)
    call(database, "set_checkpoint", run="r", version=0, path="step-0")
    play_group(database, "a")
    assert train(database, ["a"], 1, 0) == 1
    play_group(database, "b", version=1)
    assert train(database, ["b"], 2, 1) == 2
    play_group(database, "c", version=0)
    play_group(database, "d", version=2)
    play_group(database, "f", GroupState.FILTERED, version=2)
    call(database, "open_group", group=group("e"))
    call(database, "start_trajectory", trajectory=trajectory("e-0", "e"))
    call(database, "append", trajectory="e-0", **turn(0, version=2))
    call(database, "lease_groups", run="r", owner="learner", count=1, timeout_s=60)
    kept = {table: len(rows) for table, rows in contents(database).items()}
    with database.read() as conn:
        checkpoint = latest_checkpoint(conn, "r")
    assert checkpoint is not None
    lost = call(database, "rewind", run="r", version=checkpoint.id)
    assert lost == {
        "versions_abandoned": 2,
        "trajectories_cancelled": 1,
        "trajectories_abandoned": 7,
        "groups_failed": 1,
        "groups_ready": 2,
        "groups_expired": 2,
    }
    assert {table: len(rows) for table, rows in contents(database).items()} == kept
    assert states(database) == {"ready": 2, "expired": 2, "filtered": 1, "failed": 1}
    with database.read() as conn:
        flagged = {head.id for head in list_trajectories(conn, run="r", abandoned=True)}
        assert flagged == {"b-0", "b-1", "d-0", "d-1", "f-0", "f-1", "e-0"}
        assert accounting(conn, "r") == {"submitted": 11, "accepted": 4, "filtered": 6, "failed": 1, "running": 0}
    assert train(database, ["a"], 1, 0) == 3
    with database.read() as conn:
        assert double_consumed(conn, "r") == []
        assert load_update(conn, "r", 1).version == 3
    with pytest.raises(StoreConflict, match="abandoned by an earlier resume"):
        call(database, "rewind", run="r", version=2)


def test_one_token_of_an_abandoned_version_expires_a_group(database: Database) -> None:
    """An episode that lived through an update is stale when that update is taken back."""
    start(database)
    call(database, "open_group", group=group())
    for member in range(2):
        name = f"g-{member}"
        call(database, "start_trajectory", trajectory=trajectory(name, member=member))
        for index in range(2):
            call(database, "append", trajectory=name, **turn(index, version=index))
        call(database, "finish_trajectory", trajectory=name, status=Status.TRUNCATED)
    call(database, "add_version", run="r", update=1, parent=0)
    call(database, "close_group", group="g", state=GroupState.READY)
    assert call(database, "rewind", run="r", version=0)["groups_expired"] == 1


def test_a_resume_without_a_checkpoint_starts_over_with_a_new_version(database: Database) -> None:
    start(database)
    play_group(database, "a")
    assert call(database, "rewind", run="r", version=None)["versions_abandoned"] == 1
    assert call(database, "add_version", run="r", update=0, parent=None) == 1
    assert states(database) == {"expired": 1}


def test_reuse_is_declared_and_unique_in_an_update(database: Database) -> None:
    start(database)
    play_group(database, "a")
    train(database, ["a"], 1, 0)
    play_group(database, "b")
    call(database, "lease_groups", run="r", owner="alive", count=1, timeout_s=60)
    again = [replace(item, fresh=False) for item in items(["a"])]
    with pytest.raises(StoreConflict, match="in this batch twice"):
        acknowledge(database, update=2, parent=1, groups=["b"], items=items(["b"]) + again * 2)
    assert acknowledge(database, update=2, parent=1, groups=["b"], items=items(["b"]) + again) == 2
    with database.read() as conn:
        assert double_consumed(conn, "r") == []
        assert len(load_update(conn, "r", 2).members) == 4


def test_only_an_open_group_grows(database: Database) -> None:
    start(database)
    call(database, "open_group", group=group(size=2))
    call(database, "grow_group", group="g", size=5)
    with database.read() as conn:
        assert [one.size for one in load_group_heads(conn, ["g"])] == [5]
    with pytest.raises(ValueError, match="has 5 members; it cannot grow to 4"):
        call(database, "grow_group", group="g", size=4)
    with pytest.raises(NotFound, match="no group none"):
        call(database, "grow_group", group="none", size=4)
    call(database, "close_group", group="g", state=GroupState.FAILED)
    with pytest.raises(StoreConflict, match="group g is failed, so it cannot grow"):
        call(database, "grow_group", group="g", size=6)
