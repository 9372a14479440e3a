"""``turnwise trajectories branch``: new episodes from a step of a stored one, which replay verifies."""

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from turnwise.store.database import open_database
from turnwise.store.queries import load_trajectory
from turnwise.tests.store.content.sealing import reseal

from ..conftest import ENV, Turnwise

pytestmark = pytest.mark.slow


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/turnwise.db"


def played(turnwise: Turnwise, store: str, env: str = ENV, policy: str = "random", *options: str) -> str:
    """Play one episode, and return the id of its trajectory."""
    common = ["--env", env, "--policy", policy, "--tasks", "1", *options, "--json", "--store", store]
    run = json.loads(turnwise("eval", *common).out)["run"]
    return turnwise("trajectories", "list", "--run", run, "--ids", "--store", store).out.strip()


def branched(turnwise: Turnwise, store: str, trajectory: str, *options: str) -> dict[str, Any]:
    ended = turnwise("trajectories", "branch", trajectory, *options, "--json", "--store", store)
    assert ended.code == 0, ended.err
    return dict(json.loads(ended.out))


def alter(store: str, statement: str) -> None:
    """Run a statement of SQL, and write the digests that belong to the altered rows."""
    database = open_database(store)
    with database.transaction() as tx:
        tx.conn.execute(text(statement))
    reseal(database)
    database.close()


def test_branches_repeat_the_prefix_and_play_on(turnwise: Turnwise, store: str) -> None:
    parent = played(turnwise, store, ENV, "random", "--option", "family=find", "--seed", "3")
    result = branched(turnwise, store, parent, "--at", "2", "--policy", "oracle", "--episodes", "2")
    assert (result["trajectory"], result["at"]) == (parent, 2)
    assert [one["success"] for one in result["episodes"]] == [True, True]
    database = open_database(store)
    before, after = (load_trajectory(database, name) for name in (parent, result["episodes"][0]["trajectory"]))
    database.close()
    assert (after.branched_from, after.branched_at) == (parent, 2)
    assert [(one.observation, one.action, one.reward) for one in after.steps[:2]] == [
        (one.observation, one.action, one.reward) for one in before.steps[:2]
    ]
    assert after.reward == pytest.approx(sum(one.reward for one in after.steps))
    assert "continues" not in after.extras
    shown = turnwise("trajectories", "show", after.id, "--store", store).out
    assert f"branch              of {parent}, from step 2\n" in shown
    assert turnwise("trajectories", "replay", "--run", result["run"], "--store", store).out.endswith("2 of 2 match\n")


def test_replay_finds_a_branch_whose_prefix_is_not_its_parents(turnwise: Turnwise, store: str) -> None:
    parent = played(turnwise, store)
    (episode,) = branched(turnwise, store, parent, "--at", "1")["episodes"]
    alter(store, "UPDATE trajectory SET branched_at = 99 WHERE branched_at IS NOT NULL")
    ended = turnwise("trajectories", "replay", episode["trajectory"], "--store", store)
    assert ended.code == 1
    assert parent in ended.out


def test_a_branch_that_cannot_begin_is_refused_and_stores_nothing(turnwise: Turnwise, store: str) -> None:
    parent = played(turnwise, store, ENV, "oracle", "--option", "family=open")
    runs = turnwise("runs", "list", "--json", "--store", store).out
    for options, message in (
        (
            ("--at", "9"),
            "2 of its steps can be executed, and the environment ended the episode at the last one; choose 1",
        ),
        (("--at", "2"), "the episode at the last one; choose 1\n"),
        (("--at", "1", "--turns", "1"), "choose `--turns 2` or more"),
        (("--at", "1", "--policy", "rndom"), "neither random, oracle, a run of this store, a folder with a model"),
    ):
        ended = turnwise("trajectories", "branch", parent, *options, "--store", store)
        assert ended.code == 2
        assert message in ended.err
    alter(store, "UPDATE step SET reward = 7 WHERE idx = 0")
    ended = turnwise("trajectories", "branch", parent, "--at", "1", "--store", store)
    assert "its prefix is not reproduced; step 0 differs: reward was 7.0, now " in ended.err
    alter(store, "UPDATE trajectory SET deterministic = 0")
    ended = turnwise("trajectories", "branch", parent, "--at", "1", "--store", store)
    assert f"{ENV} does not declare itself deterministic" in ended.err
    assert turnwise("runs", "list", "--json", "--store", store).out == runs


def test_a_policy_that_does_not_answer_is_a_failure_with_its_cause(turnwise: Turnwise, store: str) -> None:
    parent = played(turnwise, store, ENV, "random", "--option", "family=find", "--seed", "3")
    policy = "http://127.0.0.1:9/v1"
    ended = turnwise("trajectories", "branch", parent, "--at", "1", "--policy", policy, "--store", store)
    assert ended.code == 1
    assert "engine_error" in ended.out
    assert "1 of 1 episodes failed: " in ended.err
