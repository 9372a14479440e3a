"""A run is its name: however it ends, the same command resumes it; another configuration is refused, or forked.

In CI the store is a PostgreSQL server that restarts in the middle, and the world has an outage; `make soak` has more
endings, a fork and an evaluation, on both stores, and each ending alone.
"""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from safetensors import safe_open
from turnwise.store import queries
from turnwise.tests.chaos.endings import (
    CHECKPOINT_INTERVAL,
    GROUP,
    PROCESS,
    ended_after,
    ended_by_the_death_of,
    ended_in_the_middle,
    resumes,
    survives_deaths,
)
from turnwise.tests.chaos.flaky_world import check_members, flaky_world, outage, set_rate
from turnwise.tests.chaos.harness import (
    CONFIG,
    abandoned_batches,
    command,
    reading,
    sizes,
    updates,
    use_changes,
    use_store,
)
from turnwise.tests.chaos.signals import Program, count
from turnwise.tests.store.postgres import Server

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(900)]
UPDATES_IN_CI = 200
"""More than the run makes until its last signal; the resume makes ``FURTHER``."""
FURTHER = 3
OTHER = ["train", str(CONFIG), "--set", "max_steps=2", "--set", "learner.max_grad_norm=0.5"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A PostgreSQL server that holds the store of the runs in ``tmp_path``."""
    running = Server()
    use_store(tmp_path, f"{running.url(running.create())}&blobs={tmp_path}/turnwise.blobs")
    yield running
    running.stop()


def test_a_run_that_was_ended_is_refused_with_other_settings_and_resumed(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = flaky_world(tmp_path, monkeypatch, 0.0)
    use_changes(tmp_path, world, f"max_steps={UPDATES_IN_CI}")

    def meanwhile(program: Program) -> None:
        set_rate(tmp_path, 0.2)
        program.until_rows("train_batch", count(tmp_path, "train_batch") + 3)
        outage(tmp_path, program.out, lambda: program.process.poll() is None)
        survives_deaths(program, server.restart)

    ended_after(tmp_path, 0.5, signal.SIGINT, PROCESS)
    ended_in_the_middle(tmp_path, signal.SIGTERM, GROUP, meanwhile=meanwhile)
    refused(tmp_path)
    use_changes(tmp_path, world, f"max_steps={updates(tmp_path) + FURTHER}")
    resumes(tmp_path)
    with reading(tmp_path) as conn:
        assert conn.dialect.name == "postgresql"
    check_members(tmp_path)
    listed_and_replayed(tmp_path, "small")
    logged = [json.loads(line) for line in command(tmp_path, "runs", "logs", "small", "--json").stdout.splitlines()]
    assert {"driver", "engine", "worker", "store"} <= {record["process"] for record in logged}


@pytest.mark.soak
def test_a_run_on_postgresql_that_was_ended_in_every_way_is_forked_and_resumed(tmp_path: Path, server: Server) -> None:
    ended_in_every_way(tmp_path, server)


@pytest.mark.soak
def test_a_run_on_sqlite_that_was_ended_in_every_way_is_forked_and_resumed(tmp_path: Path) -> None:
    ended_in_every_way(tmp_path, None)


def ended_in_every_way(tmp_path: Path, server: Server | None) -> None:
    """End one run in every way in turn, with a fork and an evaluation; ``server`` restarts in the middle."""
    ended_after(tmp_path, 0.5, signal.SIGINT, PROCESS)
    restart = server.restart if server else None
    ended_by_the_death_of(tmp_path, "raylet", lambda program: survives_deaths(program, restart))
    ended_after(tmp_path, 5.0, signal.SIGTERM, GROUP)
    ended_in_the_middle(tmp_path, signal.SIGTERM, GROUP, rank=True)
    abandoned = abandoned_batches(tmp_path)
    assert abandoned <= 2 * CHECKPOINT_INTERVAL  # the raylet died, and then the learner
    refused(tmp_path)
    forked(tmp_path)
    resumes(tmp_path)
    assert abandoned_batches(tmp_path) == abandoned
    evaluated(tmp_path)
    listed_and_replayed(tmp_path, "small", "small-2")


@pytest.mark.soak
def test_an_evaluation_outlives_the_death_of_its_engine(tmp_path: Path) -> None:
    ended_in_the_middle(tmp_path, signal.SIGTERM, GROUP)
    evaluated(tmp_path, kill_engine=True)


@pytest.mark.soak
def test_a_fork_that_was_killed_is_resumed(tmp_path: Path) -> None:
    ended_in_the_middle(tmp_path, signal.SIGTERM, GROUP)
    killed = command(tmp_path, *OTHER, "--fork", "--json", fault="evaluating")
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-4000:]
    with reading(tmp_path) as conn:
        assert queries.find_run(conn, "small-2").parent_id == "small"
        assert queries.latest_checkpoint(conn, "small-2") is None
    forked(tmp_path)
    resumes(tmp_path)


def listed_and_replayed(folder: Path, *finished: str) -> None:
    """The runs and trajectories are listed; stored trajectories are executed again with the same result."""
    runs = json.loads(command(folder, "runs", "list", "--json").stdout)
    assert dict.fromkeys(finished, "finished").items() <= {one["id"]: one["status"] for one in runs}.items()
    listed = json.loads(command(folder, "trajectories", "list", "--run", "small", "--limit", "5", "--json").stdout)
    assert len(listed) == 5
    replayed = command(folder, "trajectories", "replay", "--run", "small", "--sample", "5", "--import", "flaky_mod")
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr


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
    with reading(folder) as conn:
        assert queries.find_run(conn, "small-2").parent_id == "small"
        assert queries.find_run(conn, "small").status == "stopped"
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
    with reading(folder) as conn:
        played = queries.find_run(conn, result["run"]).config
    assert played["horizon"] == {
        "max_turns": 4,
        "max_tokens_per_turn": 4,
        "max_tokens_per_episode": 4096,
        "max_context": 256,
    }


def latest_checkpoint(folder: Path) -> str:
    with reading(folder) as conn:
        newest = queries.latest_checkpoint(conn, "small")
    assert newest is not None
    return str(newest.checkpoint)


def weights(checkpoint: str) -> dict[str, list[float]]:
    with safe_open(Path(checkpoint) / "model.safetensors", "pt") as file:
        return {name: file.get_tensor(name).flatten().tolist() for name in file.keys()}  # noqa: SIM118
