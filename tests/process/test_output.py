"""Stdout holds the result of a command alone, whatever an environment prints, closes or replaces."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from turnwise.tests.process.prints import NOISE, PRINTS, WAYS

pytestmark = pytest.mark.slow


def turnwise(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "turnwise.console.app", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder)


def only_json(ran: "subprocess.CompletedProcess[str]") -> object:
    assert NOISE not in ran.stdout
    return json.loads(ran.stdout)


@pytest.mark.parametrize("way", WAYS)
def test_eval_prints_its_result_alone(tmp_path: Path, way: str) -> None:
    options = ["--policy", "oracle", "--env", PRINTS, "--option", f"way={way}", "--tasks", "2"]
    ran = turnwise(tmp_path, "eval", *options, "--json")
    assert ran.returncode == 0, ran.stderr
    assert only_json(ran)["success"] == 1.0  # type: ignore[index]
    assert NOISE in ran.stderr
    assert "success" in turnwise(tmp_path, "eval", *options).stdout


def test_every_command_that_runs_an_environment_prints_json_alone(tmp_path: Path) -> None:
    ran = turnwise(tmp_path, "eval", "--policy", "random", "--env", PRINTS, "--tasks", "2", "--json")
    run = only_json(ran)["run"]  # type: ignore[index]
    ids = turnwise(tmp_path, "trajectories", "list", "--run", run, "--ids").stdout.split()
    assert len(ids) == 2
    assert len(only_json(turnwise(tmp_path, "replay", *ids, "--json"))) == 2  # type: ignore[arg-type]
    branched = only_json(
        turnwise(tmp_path, "trajectories", "branch", ids[0], "--at", "1", "--policy", "random", "--json")
    )
    assert len(branched["episodes"]) == 1  # type: ignore[index]
    assert only_json(turnwise(tmp_path, "envs", "check", PRINTS, "--json"))["ok"]  # type: ignore[index]
    exported = turnwise(tmp_path, "export", "--out", "out.jsonl", "--format", "messages", "--run", run, "--json")
    assert exported.returncode == 0, exported.stderr
    only_json(exported)


def test_help_is_on_stdout(tmp_path: Path) -> None:
    assert "--policy" in turnwise(tmp_path, "eval", "--help").stdout
    assert "eval" in turnwise(tmp_path, "--help").stdout
    assert turnwise(tmp_path, "--version").stdout.startswith("turnwise ")
