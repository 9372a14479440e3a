"""Lineage on both engines: an update names its whole batch, a trajectory all its updates, also abandoned ones."""

from pathlib import Path

import pytest
from turnwise.records import GroupState
from turnwise.store.database import Database
from turnwise.store.operations import BatchItem
from turnwise.store.queries import (
    BestCheckpoint,
    best_checkpoint,
    latest_checkpoint,
    load_update,
    update_numbers,
    updates_with,
)
from turnwise.tests.store.making import call, play_group, start, train

RECIPE = {"lr_progress": 0.1, "sources": ["policy"]}


def trained(database: Database) -> None:
    """Make updates of the groups ``a``, ``b`` with ``a`` reused, and ``c``; abandon the last one."""
    start(database)
    for name in "abc":
        play_group(database, name, GroupState.READY)
        if name != "b":
            assert train(database, [name], 1 if name == "a" else 3, 0 if name == "a" else 2)
            continue
        assert call(database, "lease_groups", run="r", owner="learner", count=1, timeout_s=60) == ["b"]
        items = [BatchItem("b-1", 3, 1, -0.5, detail=b"\x01"), BatchItem("a-0", 4, 1, 0.5, fresh=False)]
        call(
            database,
            "acknowledge",
            run="r",
            owner="learner",
            groups=["b"],
            reused=["a"],
            update=2,
            parent=1,
            items=items,
            metrics={"loss": 0.5},
            recipe=RECIPE,
            weights_hash="f" * 64,
        )
    call(database, "rewind", run="r", version=2)


def test_an_update_names_its_batch_in_its_order(database: Database) -> None:
    trained(database)
    with database.read() as conn:
        assert update_numbers(conn, "r") == [1, 2]
        found = load_update(conn, "r", 2)
    assert (found.version, found.parent, found.weights_hash) == (2, 1, "f" * 64)
    assert (found.recipe, found.metrics) == (RECIPE, {"loss": 0.5})
    assert [(one.id, one.fresh) for one in found.groups] == [("b", True), ("a", False)]
    assert [(one.trajectory, one.group, one.fresh, one.detail) for one in found.members] == [
        ("b-1", "b", True, b"\x01"),
        ("a-0", "a", False, None),
    ]
    assert [(one.tokens_trained, one.max_staleness, one.mean_advantage) for one in found.members] == [
        (3, 1, -0.5),
        (4, 1, 0.5),
    ]


def test_a_trajectory_names_every_update_that_trained_on_it(database: Database) -> None:
    trained(database)
    with database.read() as conn:
        uses = {name: updates_with(conn, name) for name in ("a-0", "a-1", "b-0", "c-0")}
    assert [(one.run, one.update, one.version, one.fresh) for one in uses["a-0"]] == [
        ("r", 1, 1, True),
        ("r", 2, 2, False),
    ]
    assert [one.update for one in uses["a-1"]] == [1]
    assert uses["b-0"] == []
    assert [(one.update, one.abandoned) for one in uses["c-0"]] == [(3, True)]


def test_the_best_checkpoint_was_evaluated_as_the_newest_evaluation(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(database)
    with database.read() as conn:
        assert (best_checkpoint(conn, "r"), latest_checkpoint(conn, "r")) == (None, None)
    rate = {"low": 0.0, "high": 1.0, "samples": 1}
    evaluated = {1: (0.9, 1.0), 2: (0.7, 0.0), 3: (0.8, 0.0), 4: (0.5, 0.0), 5: (1.0, 0.0)}
    for number, (success, temperature) in evaluated.items():
        empty = {"owner": "learner", "groups": [], "items": []}
        call(database, "acknowledge", run="r", update=number, parent=number - 1, metrics={}, **empty)
        if number != 3:
            call(database, "set_checkpoint", run="r", version=number, path=f"checkpoints/{number}")
        made = {"success": success, "temperature": temperature, "version": number, **rate}
        call(database, "add_metrics", run="r", update=number, kind=f"evaluation {number}", metrics=made)
    call(database, "rewind", run="r", version=4)
    for folder in (tmp_path, tmp_path / "moved"):  # the store names no folder of its own
        monkeypatch.setenv("TURNWISE_RUNS", str(folder))
        with database.read() as conn:
            best, latest = best_checkpoint(conn, "r"), latest_checkpoint(conn, "r")
        assert best == BestCheckpoint("2", 0.7, 0.0, 1.0, 2, 2, f"{folder}/r/checkpoints/2")
        assert latest is not None
        assert (latest.id, latest.update, latest.checkpoint) == (4, 4, f"{folder}/r/checkpoints/4")
