"""``turnwise trajectories experts``: an oracle's episodes become tasks that its own actions solve."""

import json
from pathlib import Path

import pytest

from ..conftest import ENV, Turnwise

pytestmark = pytest.mark.slow
SEMI_ONLINE = "turnwise/SemiOnline-v0"


def test_recorded_experts_are_played(turnwise: Turnwise, tmp_path: Path) -> None:
    store, file = f"sqlite:///{tmp_path}/turnwise.db", tmp_path / "new" / "experts.jsonl"
    played = ["--env", ENV, "--tasks", "4", "--json", "--store", store]
    train = json.loads(turnwise("eval", "--policy", "oracle", "--split", "train", *played).out)["run"]
    ended = turnwise("trajectories", "experts", str(file), "--run", train, "--store", store)
    assert ended.out == f"4 episodes written to {file}\n"
    options = ["--env", SEMI_ONLINE, "--option", f"path={file}", "--split", "train", "--json", "--store", store]
    oracle = json.loads(turnwise("eval", "--policy", "oracle", *options).out)
    assert (oracle["tasks"], oracle["success"], oracle["reward"]) == (4, 1.0, oracle["turns"])
    random = json.loads(turnwise("eval", "--policy", "random", *options).out)
    assert random["success"] < 1
    assert turnwise("trajectories", "replay", "--run", random["run"], "--all", "--store", store).out.endswith(
        "4 of 4 match\n"
    )


def test_a_run_without_experts_is_refused(turnwise: Turnwise, store: str, tmp_path: Path) -> None:
    ended = turnwise("trajectories", "experts", str(tmp_path / "experts.jsonl"), "--run", "demo", "--store", store)
    assert ended.code == 2
    assert "run demo has no successful episode of an expert" in ended.err
    assert not (tmp_path / "experts.jsonl").exists()
