"""A run is its name: however it ends, the same command resumes it; another configuration is refused, or forked."""

import json
import signal
from pathlib import Path

import pytest
from safetensors import safe_open
from turnwise.store import queries
from turnwise.store.database import open_database
from turnwise.tests.chaos.endings import (
    CHECKPOINT_INTERVAL,
    GROUP,
    PROCESS,
    ended_after,
    ended_by_the_death_of,
    ended_in_the_middle,
    resumes,
)
from turnwise.tests.chaos.harness import CONFIG, abandoned_batches, command, sizes, url
from turnwise.tests.chaos.signals import Program, count

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(900)]
OTHER = ["train", str(CONFIG), "--set", "max_steps=2", "--set", "learner.learning_rate=0.0005"]


def test_a_run_that_was_ended_in_every_way_is_refused_forked_and_resumed(tmp_path: Path) -> None:
    ended_after(tmp_path, 0.5, signal.SIGINT, PROCESS)
    ended_after(tmp_path, 5.0, signal.SIGTERM, GROUP)
    ended_by_the_death_of(tmp_path, "raylet", survived=("RolloutWorker", "Engine", "StoreWriter"))
    ended_in_the_middle(tmp_path, signal.SIGTERM, GROUP)
    abandoned = abandoned_batches(tmp_path)
    assert abandoned <= CHECKPOINT_INTERVAL
    refused(tmp_path)
    forked(tmp_path)
    resumes(tmp_path)
    assert abandoned_batches(tmp_path) == abandoned
    evaluated(tmp_path)


@pytest.mark.soak
def test_an_evaluation_outlives_the_death_of_its_engine(tmp_path: Path) -> None:
    ended_in_the_middle(tmp_path, signal.SIGTERM, GROUP)
    evaluated(tmp_path, kill_engine=True)


@pytest.mark.soak
def test_a_fork_that_was_killed_is_resumed(tmp_path: Path) -> None:
    ended_in_the_middle(tmp_path, signal.SIGTERM, GROUP)
    killed = command(tmp_path, *OTHER, "--fork", "--json", fault="evaluating")
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-4000:]
    with open_database(url(tmp_path)).read() as conn:
        assert queries.run_row(conn, "small-2")["parent_id"] == "small"
        assert queries.latest_checkpoint(conn, "small-2") is None
    forked(tmp_path)
    resumes(tmp_path)


def refused(folder: Path) -> None:
    """Another configuration under the same name changes nothing."""
    before = sizes(folder)
    done = command(folder, *OTHER)
    assert done.returncode == 2
    assert "another configuration" in done.stderr
    assert "--fork" in done.stderr
    assert sizes(folder) == before


def forked(folder: Path) -> None:
    """A fork starts with the weights of its parent's last checkpoint and leaves the parent as it is."""
    parent = latest_checkpoint(folder)
    done = command(folder, *OTHER, "--fork", "--json")
    assert done.returncode == 0, done.stderr[-4000:]
    ended = json.loads(done.stdout.splitlines()[-1])
    assert (ended["run"], ended["status"], ended["updates"]) == ("small-2", "finished", 2)
    with open_database(url(folder)).read() as conn:
        assert queries.run_row(conn, "small-2")["parent_id"] == "small"
        assert queries.run_row(conn, "small")["status"] == "stopped"
        first = queries.checkpoints(conn, "small-2")[0]
    assert first.update == 0
    assert weights(first.checkpoint) == weights(parent)


def evaluated(folder: Path, *, kill_engine: bool = False) -> None:
    """A checkpoint is evaluated with the horizon of its run."""
    tasks = "200" if kill_engine else "12"
    asked = ["--policy", latest_checkpoint(folder), "--env", "turnwise/TextSite-v0", "--tasks", tasks]
    before = count(folder, "step")
    program = Program.of(folder, "eval", *asked, "--json")
    if kill_engine:
        program.until_rows("step", before + 1)
        program.part("ray::Engine").kill()
    assert program.wait(240) == 0, program.err()
    result = json.loads(program.out())
    assert result["failed"] == 0
    with open_database(url(folder)).read() as conn:
        played = queries.run_row(conn, result["run"])["config"]
    assert played["horizon"] == {
        "max_turns": 4,
        "max_tokens_per_turn": 4,
        "max_tokens_per_episode": 4096,
        "max_context": 256,
    }


def latest_checkpoint(folder: Path) -> str:
    with open_database(url(folder)).read() as conn:
        newest = queries.latest_checkpoint(conn, "small")
    assert newest is not None
    return str(newest.checkpoint)


def weights(checkpoint: str) -> dict[str, list[float]]:
    with safe_open(Path(checkpoint) / "model.safetensors", "pt") as file:
        return {name: file.get_tensor(name).flatten().tolist() for name in file.keys()}  # noqa: SIM118
