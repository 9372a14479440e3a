"""A run is its name: it is stopped and goes on, is refused under another configuration, and is forked."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from safetensors import safe_open
from turnwise.store import queries
from turnwise.store.database import open_database
from turnwise.tests.chaos.harness import CONFIG, PROGRAM, Launch, abandoned_batches, check_finished, sizes, updates, url

UPDATES = 40


def command(folder: Path, *arguments: str, seconds: float, fault: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAM, *arguments, "--store", url(folder)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        env={**os.environ, "TURNWISE_FAILPOINT": fault},
    )


def weights(checkpoint: str) -> dict[str, list[float]]:
    with safe_open(Path(checkpoint) / "model.safetensors", "pt") as file:
        return {name: file.get_tensor(name).flatten().tolist() for name in file.keys()}  # noqa: SIM118


@pytest.mark.chaos
@pytest.mark.timeout(600)
@pytest.mark.parametrize("fork_is_killed", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_a_run_is_stopped_refused_forked_and_resumed(tmp_path: Path, fork_is_killed: bool) -> None:
    launch = Launch.of(tmp_path, f"max_steps={UPDATES}")
    launch.until_update(2, 200)
    assert command(tmp_path, "runs", "stop", "small", seconds=60).returncode == 0
    assert launch.wait(120) == 0, launch.log()
    stopped_at = updates(tmp_path)
    assert 2 <= stopped_at < UPDATES
    assert json.loads(launch.log().splitlines()[-1])["status"] == "stopped"
    with open_database(url(tmp_path)).read() as conn:
        assert queries.run_row(conn, "small")["status"] == "stopped"
        newest = queries.latest_checkpoint(conn, "small")
    assert newest is not None
    assert newest.update == stopped_at
    logged = [json.loads(line) for line in command(tmp_path, "logs", "small", "--json", seconds=60).stdout.splitlines()]
    assert {"driver", "engine", "worker", "store"} <= {record["process"] for record in logged}
    before = sizes(tmp_path)

    other = ["train", str(CONFIG), "--set", "max_steps=2", "--set", "learner.learning_rate=0.0005"]
    refused = command(tmp_path, *other, seconds=60)
    assert refused.returncode == 2
    assert "another configuration" in refused.stderr
    assert "--fork" in refused.stderr
    assert sizes(tmp_path) == before

    if fork_is_killed:
        killed = command(tmp_path, *other, "--fork", "--json", seconds=200, fault="evaluating")
        assert killed.returncode == -9, killed.stderr[-4000:]
        with open_database(url(tmp_path)).read() as conn:
            assert queries.run_row(conn, "small-2")["parent_id"] == "small"
            assert queries.latest_checkpoint(conn, "small-2") is None
    forked = command(tmp_path, *other, "--fork", "--json", seconds=200)
    assert forked.returncode == 0, forked.stderr[-4000:]
    ended = json.loads(forked.stdout.splitlines()[-1])
    assert (ended["run"], ended["status"], ended["updates"]) == ("small-2", "finished", 2)
    with open_database(url(tmp_path)).read() as conn:
        row = queries.run_row(conn, "small-2")
        first = queries.checkpoints(conn, "small-2")[0]
        assert row["parent_id"] == "small"
        assert queries.run_row(conn, "small")["status"] == "stopped"
    assert first.update == 0
    assert weights(first.checkpoint) == weights(newest.checkpoint)

    assert launch.of(tmp_path, f"max_steps={UPDATES}").wait(240) == 0, launch.log()
    assert f"resuming run small at update {stopped_at}" in (tmp_path / "log.txt").read_text()
    check_finished(tmp_path, updates_wanted=UPDATES)
    assert abandoned_batches(tmp_path) == 0

    with open_database(url(tmp_path)).read() as conn:
        last = queries.latest_checkpoint(conn, "small")
    assert last is not None
    asked = ["--policy", str(last.checkpoint), "--env", "turnwise/TextSite-v0", "--tasks", "2", "--json"]
    evaluated = command(tmp_path, "eval", *asked, seconds=200)
    assert evaluated.returncode == 0, evaluated.stderr[-4000:]
    with open_database(url(tmp_path)).read() as conn:
        played = queries.run_row(conn, json.loads(evaluated.stdout)["run"])["config"]
    assert played["horizon"] == {
        "max_turns": 4,
        "max_tokens_per_turn": 4,
        "max_tokens_per_episode": 4096,
        "max_context": 256,
    }
