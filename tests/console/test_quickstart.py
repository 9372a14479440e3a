"""The quickstart, for a few of its updates: it learns, keeps its staleness bound, and what it stored replays.

The whole of it, over ten seeds and with its thresholds, is ``make soak``'s.
"""

import json
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import select, update
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from turnwise.store import queries
from turnwise.store.database import Database, open_database
from turnwise.store.schema import PACE, no_of, step
from turnwise.store.schema import trajectory as heads
from turnwise.trainer.telemetry.trackers.base import numbers

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = str(Path(sys.executable).with_name("turnwise"))
UPDATES = 20
ADAPTER_UPDATES = 28

pytestmark = pytest.mark.slow


def turnwise(*arguments: str, status: int | None = 0) -> str:
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == status or status is None, f"{arguments}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('quickstart')}/turnwise.db"


@pytest.fixture(scope="module")
def said(url: str) -> dict[str, Any]:
    settings = (f"max_steps={UPDATES}", "max_seconds=300", "evaluation.tasks=102", 'trackers=["tensorboard"]')
    smaller = [word for one in settings for word in ("--set", one)]
    out = turnwise("train", str(ROOT / "examples" / "quickstart.toml"), "--json", "--store", url, *smaller)
    *events, result = map(json.loads, out.splitlines())
    assert [one["update"] for one in events if one["event"] == "update"] == list(range(1, result["updates"] + 1))
    assert result["event"] == "result"
    return result


@pytest.fixture(scope="module")
def database(url: str, said: dict[str, Any]) -> Database:
    return open_database(url)


@pytest.mark.timeout(500)
def test_it_learns_within_its_staleness_bound(said: dict[str, Any]) -> None:
    assert said["status"] == "finished"
    assert said["success_untrained"] <= 0.1
    assert said["success_warmup"] <= 0.3
    assert said["success_after"] >= said["success_warmup"] + 0.15
    assert said["gain"] == pytest.approx(said["success_after"] - said["success_warmup"], abs=2e-4)
    assert said["gain_low"] < said["gain"] < said["gain_high"]
    assert said["max_staleness"] <= 1
    assert said["stale_share"] >= 0.2
    assert said["best_success"] == max(said["success_warmup"], said["success_after"])
    assert (Path(said["best_checkpoint"]) / "model.safetensors").is_file()
    assert (Path(said["folder"]) / "learning_curve.png").read_bytes().startswith(b"\x89PNG")
    lines = (Path(said["folder"]) / "metrics.jsonl").read_text().splitlines()
    updates = [one for line in lines if (one := json.loads(line))["kind"] == "update"]
    assert len(updates) == said["updates"]
    assert 0 < max(one.get("engine_mismatch_max", 0.0) for one in updates) < 1e-3
    parts = ("learner", "engine", "worker", "writer", "slot")
    assert all(0 < one[f"{part}_busy_fraction"] <= 1 for one in updates for part in parts)


def test_the_tracker_received_the_numbers_of_the_metrics_file(said: dict[str, Any]) -> None:
    folder = Path(said["folder"])
    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    received = {(name, one.step): one.value for name in events.Tags()["scalars"] for one in events.Scalars(name)}
    records = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    written = {(name, record["update"]): value for record in records for name, value in numbers(record).items()}
    assert received == pytest.approx(written, rel=1e-6)
    assert {("update/success", 1), ("evaluation/success", said["updates"])} <= received.keys()


def test_the_store_has_the_rates_of_each_update(said: dict[str, Any], url: str) -> None:
    lines = (Path(said["folder"]) / "metrics.jsonl").read_text().splitlines()
    updates = {one["update"]: one for line in lines if (one := json.loads(line))["kind"] == "update"}
    database = open_database(url, read_only=True)
    with database.read() as conn:
        stored = queries.list_metrics(conn, said["run"], PACE)
    database.close()
    assert [one["update"] for one in stored] == list(updates)
    for one in stored:
        assert one.pop("update_seconds") > 0
        assert one.items() <= updates[one["update"]].items()
        assert {"tokens_per_s", "engine_busy_fraction", "learner_busy_fraction"} <= one.keys()


def test_the_page_of_the_run_names_its_best_checkpoint(said: dict[str, Any], url: str) -> None:
    shown = json.loads(turnwise("runs", "show", said["run"], "--json", "--store", url))["best_checkpoint"]
    assert (shown["path"], shown["update"]) == (said["best_checkpoint"], said["best_update"])
    assert f"best checkpoint  version {shown['version']}, update" in turnwise(
        "runs", "show", said["run"], "--store", url
    )


@pytest.mark.soak
def test_a_lora_adapter_on_its_warmed_up_policy_learns(said: dict[str, Any], tmp_path: Path) -> None:
    """The engines get the adapter alone."""
    warmed_up = min((Path(said["folder"]) / "checkpoints").iterdir(), key=lambda one: int(one.name))
    changes = {
        "name": "adapter",
        "model.path": warmed_up,
        "learner.lora.rank": 16,
        "learner.learning_rate": 5e-3,
        "learner.max_kl": 0.012,
        "max_steps": ADAPTER_UPDATES,
        "max_seconds": 300,
        "evaluation.tasks": 102,
    }
    settings = [word for key, value in changes.items() for word in ("--set", f"{key}={value}")]
    store = f"sqlite:///{tmp_path}/turnwise.db"
    out = turnwise("train", str(ROOT / "examples" / "quickstart.toml"), "--json", "--store", store, *settings)
    result = json.loads(out.splitlines()[-1])
    assert result["updates"] == ADAPTER_UPDATES
    assert result["success_after"] >= result["success_untrained"] + 0.05
    newest = max((Path(result["folder"]) / "checkpoints").iterdir(), key=lambda one: int(one.name))
    assert {one.name for one in newest.glob("*.safetensors")} == {"adapter_model.safetensors"}


def ended(database: Database) -> list[str]:
    with database.read() as conn:
        rows = queries.list_trajectories(conn, limit=100_000, status=["completed", "truncated"])
    return [row.id for row in rows]


def test_fifty_random_trajectories_of_it_replay(url: str, database: Database) -> None:
    chosen = Random(0).sample(ended(database), 50)
    reports = json.loads(turnwise("trajectories", "replay", *chosen, "--json", "--store", url, status=None))
    assert len(reports) == 50
    assert [report for report in reports if not report["matches"]] == []


def set_observation(database: Database, trajectory: str, observation: str) -> str:
    """Replace the observation of step 2, and return the one before."""
    which = (step.c.trajectory_no == no_of(heads, trajectory)) & (step.c.idx == 2)
    with database.transaction() as tx:
        before = tx.conn.execute(select(step.c.observation).where(which)).scalar_one()
        tx.conn.execute(update(step).where(which).values(observation=observation))
    return str(before)


def test_an_altered_observation_is_found_and_its_step_named(url: str, database: Database) -> None:
    with database.read() as conn:
        lengths = {row.id: row.n_steps for row in queries.list_trajectories(conn, limit=1000)}
    trajectory = next(one for one in ended(database) if lengths.get(one, 0) >= 3)
    kept = set_observation(database, trajectory, "altered")
    try:
        out = turnwise("trajectories", "replay", trajectory, "--store", url, status=1)
        assert "step 2" in out
    finally:
        set_observation(database, trajectory, kept)
