"""Offline training: a run on the stored groups of another run, without an engine."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import ray
from sqlalchemy import select
from turnwise.errors import TurnwiseError
from turnwise.records import GroupState, Task, Trajectory
from turnwise.store import queries
from turnwise.store.database import Database, open_database
from turnwise.store.schema import batch_group, batch_item, no_of, rollout_group, trajectory
from turnwise.store.schema import run as run_table
from turnwise.tests.store.making import contents, play_scored, prune, sqlite_store, start
from turnwise.trainer.algorithms.rewards.checker import Checker
from turnwise.trainer.config.errors import ConfigError
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.rollout.rescoring import score_stored
from turnwise.trainer.run.retraining import retrain
from turnwise.trainer.run.run import train
from turnwise.trainer.run.summary import RunResult
from turnwise.trainer.telemetry.events import Event, Note, UpdateDone

pytestmark = pytest.mark.slow

NAMES = ["a", "b", "c", "d", "e", "f", "g"]
"""Groups of the other run in the order of their scoring; all returns of ``c`` are equal."""
SETTINGS: dict[str, Any] = {
    "name": "off",
    "environments": [{"id": "turnwise/TextSite-v0"}],
    "offline": {"run": "r"},
    "model": {"new": {"hidden": 32, "heads": 1, "layers": 1}},
    "sft_warmup": {"steps": 0},
    "rollout": {"groups_per_batch": 2},
    "learner": {"learning_rate": 1e-2, "lr_warmup_steps": 0},
    "checkpoint": {"interval": 2},
}
PROGRAM = """
import json, sys
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.rollout.rescoring import score_stored
from turnwise.trainer.run.retraining import retrain
from turnwise.trainer.run.run import train
train(parse_config(json.loads(sys.argv[1])), store_url=sys.argv[2])
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Return a store with run ``r`` of seven scored groups, one of them of equal returns."""
    address = sqlite_store(tmp_path)
    database = open_database(address)
    start(database)
    for number, name in enumerate(NAMES):
        play_scored(database, name, number, [0.0, 0.0 if name == "c" else 1.0, 0.5 * (name != "c")])
    database.close()
    return address


def offline(url: str, events: list[Event] | None = None, **changes: Any) -> RunResult:
    return train(parse_config(SETTINGS | changes), store_url=url, report=(events or []).append)


def consumed(database: Database, run: str) -> dict[int, list[str]]:
    """Return the groups of each surviving update."""
    which = (
        select(batch_group.c.version_id, rollout_group.c.id, batch_group.c.fresh)
        .join(rollout_group, rollout_group.c.no == batch_group.c.group_no)
        .where(batch_group.c.run_no == no_of(run_table, run), ~batch_group.c.abandoned)
        .order_by(batch_group.c.version_id, batch_group.c.idx)
    )
    with database.read() as conn:
        rows = conn.execute(which).all()
        versions = queries.versions(conn, run)
    assert not any(row.fresh for row in rows)
    found: dict[int, list[str]] = {}
    for row in rows:
        found.setdefault(versions[row.version_id].update, []).append(row.id)
    return found


def weights(database: Database, run: str) -> bytes:
    with database.read() as conn:
        newest = queries.latest_checkpoint(conn, run)
    assert newest is not None
    return (Path(newest.checkpoint) / "model.safetensors").read_bytes()


def test_a_run_trains_on_each_stored_group_once_and_leaves_the_other_run_as_it_is(url: str) -> None:
    database, events = open_database(url), list[Event]([Note("first")])
    before, had_ray = contents(database), ray.is_initialized()
    result = offline(url, events, ray_address="127.0.0.1:1")
    assert (result.status, result.updates, result.success_after) == ("finished", 3, None)
    assert (result.max_staleness, result.stale_share) == (None, None)
    assert consumed(database, "off") == {1: ["a", "b"], 2: ["d", "e"], 3: ["f", "g"]}
    assert ray.is_initialized() == had_ray, "an offline run needs no Ray"
    after = contents(database)
    assert {name: [row for row in rows if row in after[name]] for name, rows in before.items()} == before
    assert {name for name, rows in after.items() if rows != before[name]} == {
        "run",
        "metric",
        "policy_version",
        "train_batch",
        "batch_group",
        "batch_item",
    }
    with database.read() as conn:
        (first, *_, last) = queries.batch_metrics(conn, "off")
        versions = queries.versions(conn, "off")
        checkpoints = [Path(one.checkpoint) for one in queries.checkpoints(conn, "off")]
        assert queries.group_counts(conn, "r")[GroupState.READY] == len(NAMES)
        assert {row.fresh for row in conn.execute(select(batch_item.c.fresh))} == {False}
    assert (first["staleness_max"], last["staleness_max"], first["reward"]) == (1, 3, 1.0)
    assert [(one.update, bool(one.checkpoint)) for one in versions.values()] == [
        (0, True),
        (1, False),
        (2, True),
        (3, True),
    ]
    assert len({(one / "model.safetensors").read_bytes() for one in checkpoints}) == 3
    notes = [event.text for event in events if isinstance(event, Note)]
    assert any("success and reward of an update are theirs" in note for note in notes)
    assert {event.is_offline for event in events if isinstance(event, UpdateDone)} == {True}
    assert "run r has no further batch of 2 groups: training ends after 3 updates; 1 groups were filtered" in notes
    database.close()


def test_a_killed_run_resumes_to_the_same_weights(url: str) -> None:
    """The process dies after update 3, and its newest checkpoint is of update 2."""
    offline(url, name="whole")
    environment = {**os.environ, "TURNWISE_FAILPOINT": "after_acknowledge:3"}
    settings = {**SETTINGS, "name": "killed"}
    done = subprocess.run([sys.executable, "-c", PROGRAM, json.dumps(settings), url], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    database = open_database(url)
    assert consumed(database, "killed")[3] == ["f", "g"]
    result = offline(url, name="killed")
    assert (result.run, result.status, result.updates) == ("killed", "finished", 3)
    assert consumed(database, "killed") == consumed(database, "whole")
    assert weights(database, "killed") == weights(database, "whole")
    with database.read() as conn:
        assert queries.group_counts(conn, "r")[GroupState.READY] == len(NAMES)
    database.close()


def strict(task: Task, trajectory: Trajectory) -> float | None:
    """Return different scores in the groups ``c`` and ``g`` only, and none for one member of ``g``."""
    if trajectory.id == "g-2":
        return None
    return 2.0 if trajectory.id in ("c-1", "g-1") else 1.0


def test_a_run_that_was_scored_again_is_trained_on_with_the_new_rewards(url: str) -> None:
    database = open_database(url)
    report = score_stored(database, "r", "strict", Checker(function=f"{__name__}:strict"))
    assert (report.scored, report.unscored) == (20, 1)
    result = offline(url, name="judged", offline={"run": "r", "rewards": "strict"})
    assert (result.updates, consumed(database, "judged")) == (1, {1: ["c", "g"]})
    with database.read() as conn:
        rows = conn.execute(select(trajectory.c.id, batch_item.c.mean_advantage).join(batch_item))
        advantages = {row.id: row.mean_advantage for row in rows}
    assert advantages["g-0"] == -advantages["g-1"] == -0.5
    assert "g-2" not in advantages
    database.close()


def test_an_offline_run_is_repeated_bit_for_bit(url: str) -> None:
    """This proximal policy depends on the staleness, which refers to versions of the other run."""
    offline(url, proximal={"name": "log_linear"})
    database = open_database(url)
    repeated = retrain(database, "off").updates
    assert [(one.update, one.matches) for one in repeated] == [(1, True), (2, True), (3, True)]
    database.close()


def test_a_group_without_content_is_left_out(url: str) -> None:
    database = open_database(url)
    prune(database, "a-1")
    result = offline(url, rollout={"groups_per_batch": 5})
    assert (result.updates, consumed(database, "off")) == (1, {1: ["b", "d", "e", "f", "g"]})
    database.close()


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"offline": {"run": "absent"}}, TurnwiseError, "no run absent in the store"),
        ({"offline": {"run": "r", "rewards": "lax"}}, TurnwiseError, "no reward set `lax`"),
        ({"rollout": {"groups_per_batch": 8}}, TurnwiseError, "has 7 scored training groups"),
        ({"rollout": {"groups_per_batch": 2, "temperature": 0.5}}, TurnwiseError, "sampled at temperature 1"),
        ({"offline": {"rewards": "lax"}}, ConfigError, r"`offline.rewards` needs `offline.run`"),
        ({"evaluation": {"tasks": 8}}, ConfigError, r"set `evaluation.tasks = 0`"),
        ({"rewards": [{"name": "turn_penalty"}]}, ConfigError, "`turnwise runs score`"),
        ({"replay_buffer": {"name": "dots"}}, ConfigError, "remove `offline.run`"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(
    url: str, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        offline(url, **changes)


def test_another_tokenizer_is_refused(url: str, tmp_path: Path) -> None:
    folder = tmp_path / "r" / "tokenizer"
    folder.mkdir(parents=True)
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(TurnwiseError, match="the tokenizer of this run differs from that of run `r`"):
        offline(url)
