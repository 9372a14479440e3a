"""A command keeps the folder, variables, umask and limits with which it began, whatever an environment changes."""

import json
import os
import resource
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from turnwise.process.start import absolute, recorded_start, restore
from turnwise.tests.process.moves import MOVES

CONFIG = """
name = "moved"
preset = "tiny"
max_steps = 1
group_filters = []
[[environments]]
id = "{id}"
options = {{ where = "{where}" }}
[rollout]
groups_per_batch = 2
group_size = 2
[horizon]
max_turns = 2
[sft_warmup]
steps = 2
batch_size = 1
[evaluation]
tasks = 2
"""


def turnwise(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "turnwise.console.app", *arguments]
    variables = {name: value for name, value in os.environ.items() if name != "TURNWISE_BLOBS"}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=280, cwd=folder, env=variables)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (tmp_path / "here").mkdir()
    return folder


@pytest.mark.slow
def test_an_evaluation_stays_in_its_folder(tmp_path: Path, elsewhere: Path) -> None:
    options = ["--policy", "oracle", "--env", MOVES, "--option", f"where={elsewhere}", "--tasks", "2", "--json"]
    run = json.loads(turnwise(tmp_path / "here", "eval", *options))["run"]
    assert list(elsewhere.iterdir()) == []
    shown = json.loads(turnwise(tmp_path / "here", "runs", "show", run, "--json"))
    assert shown["status"] == "finished"
    ids = turnwise(tmp_path / "here", "trajectories", "list", "--run", run, "--ids").split()
    turnwise(tmp_path / "here", "export", "--out", "out.jsonl", "--format", "messages", *ids)
    assert (tmp_path / "here" / "out.jsonl").exists()
    assert list(elsewhere.iterdir()) == []


@pytest.mark.slow
def test_a_run_stays_in_its_folder(tmp_path: Path, elsewhere: Path) -> None:
    here = tmp_path / "here"
    (here / "moved.toml").write_text(CONFIG.format(id=MOVES, where=elsewhere))
    turnwise(here, "train", "moved.toml")
    assert list(elsewhere.iterdir()) == []
    assert json.loads(turnwise(here, "runs", "show", "moved", "--json"))["status"] == "finished"
    files = {path.name for path in (here / "runs" / "moved").iterdir()}
    assert {"checkpoints", "logs", "metrics.jsonl"} <= files
    assert stat.S_IMODE((here / "runs" / "moved" / "metrics.jsonl").stat().st_mode) & 0o044


def test_relative_paths_are_resolved_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"sub{os.pathsep}/abs")
    with recorded_start():
        monkeypatch.chdir("/")
        assert absolute("a/b") == tmp_path / "a/b"
        assert absolute("/a") == Path("/a")
        assert os.environ["PYTHONPATH"] == f"{tmp_path}/sub{os.pathsep}/abs"
    assert absolute("a") == Path("/a")


def test_restore_sets_the_state_of_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KEPT", "before")
    monkeypatch.setenv("REMOVED", "before")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    umask = os.umask(0o022)
    with recorded_start():
        try:
            monkeypatch.chdir("/")
            os.environ["KEPT"] = "after"
            os.environ["ADDED"] = "after"
            del os.environ["REMOVED"]
            os.umask(0o777)
            resource.setrlimit(resource.RLIMIT_NOFILE, (limits[0] - 1, limits[1]))
            restore()
            assert Path.cwd() == tmp_path
            assert (os.environ["KEPT"], os.environ["REMOVED"], os.environ.get("ADDED")) == ("before", "before", None)
            assert os.umask(umask) == 0o022
            assert resource.getrlimit(resource.RLIMIT_NOFILE) == limits
        finally:
            os.umask(umask)


def test_a_nested_call_keeps_the_first_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with recorded_start():
        monkeypatch.chdir("/")
        with recorded_start():
            assert absolute("a") == tmp_path / "a"
        assert absolute("a") == tmp_path / "a"
