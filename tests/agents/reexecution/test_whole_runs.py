"""Every trajectory of three whole training runs re-executes: text, code and web."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
UPDATES = int(os.environ.get("TURNWISE_REPLAYED_UPDATES", "4"))
PARALLEL = 4
TIMEOUT_S = 1800.0

pytestmark = [pytest.mark.soak, pytest.mark.docker, pytest.mark.timeout(2 * TIMEOUT_S)]


def turnwise(store: str, *arguments: str) -> str:
    """Return the output of a command on a store; it must succeed."""
    done = subprocess.run(
        [sys.executable, "-m", "turnwise.console.app", *arguments, "--store", store],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-4000:])
    return done.stdout


@pytest.mark.parametrize("example", ["quickstart", "tiny_code", "tiny_web"])
def test_a_whole_run_re_executes(tmp_path: Path, example: str) -> None:
    store = f"sqlite:///{tmp_path}/turnwise.db"
    settings = ["--set", f"max_steps={UPDATES}", "--set", "evaluation.tasks=8"]
    turnwise(store, "train", str(ROOT / "examples" / f"{example}.toml"), *settings)
    (run,) = json.loads(turnwise(store, "runs", "list", "--json"))
    replay = ["trajectories", "replay", "--run", run["id"], "--all", "--parallel", str(PARALLEL), "--json"]
    reports = json.loads(turnwise(store, *replay))
    assert len(reports) >= 8 * UPDATES
    assert [one for one in reports if not one["matches"]] == []
