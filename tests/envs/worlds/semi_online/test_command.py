"""The command ``experts``: an oracle's episodes become tasks that its own actions solve."""

import subprocess
import sys
from pathlib import Path

import pytest
from turnwise.envs.worlds.semi_online.env import COMMAND
from turnwise.trainer.evaluation.tasks import evaluate

pytestmark = pytest.mark.slow


def write(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *COMMAND.split()[1:], *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_recorded_experts_are_played(tmp_path: Path) -> None:
    store, file = f"sqlite:///{tmp_path}/turnwise.db", tmp_path / "new" / "experts.jsonl"
    recorded = evaluate("oracle", "turnwise/TextSite-v0", split="train", tasks=4, store_url=store).run
    assert write(file, "--run", recorded, "--store", store).stdout == f"4 episodes written to {file}\n"
    played = {"split": "train", "tasks": 4, "store_url": store, "options": {"path": str(file)}}
    oracle = evaluate("oracle", "turnwise/SemiOnline-v0", **played)  # type: ignore[arg-type]
    assert (oracle.tasks, oracle.success, oracle.reward) == (4, 1.0, oracle.turns)
    random = evaluate("random", "turnwise/SemiOnline-v0", **played)  # type: ignore[arg-type]
    assert random.success is not None
    assert random.success < 1
    refused = write(tmp_path / "none.jsonl", "--run", random.run, "--store", store)
    assert refused.returncode == 1
    assert f"run {random.run} has no successful episode of an expert; record some with" in refused.stderr
    assert not (tmp_path / "none.jsonl").exists()


def test_a_store_that_is_missing_is_one_line(tmp_path: Path) -> None:
    refused = write(tmp_path / "none.jsonl", "--store", f"sqlite:///{tmp_path}/none.db")
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1), refused.stderr
