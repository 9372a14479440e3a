"""A command keeps the folder, variables and umask with which it began, whatever an environment changes."""

import json
import os
from pathlib import Path

import pytest
from turnwise.base.process.start import absolute, recorded_start, restore
from turnwise.tests.base.process.moves import MOVES

from .conftest import Turnwise


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (tmp_path / "here").mkdir()
    return folder


@pytest.mark.slow
def test_an_evaluation_stays_in_its_folder(turnwise: Turnwise, tmp_path: Path, elsewhere: Path) -> None:
    def run(*arguments: str) -> str:
        ended = turnwise(*arguments, folder=tmp_path / "here", environment={"TURNWISE_BLOBS": None})
        assert ended.code == 0, ended.err
        return ended.out

    options = ["--policy", "oracle", "--env", MOVES, "--option", f"where={elsewhere}", "--tasks", "2", "--json"]
    name = json.loads(run("eval", *options))["run"]
    assert list(elsewhere.iterdir()) == []
    assert json.loads(run("runs", "show", name, "--json"))["status"] == "finished"
    ids = run("trajectories", "list", "--run", name, "--ids").split()
    run(
        "trajectories",
        "export",
        "--out",
        "out.jsonl",
        "--format",
        "messages",
        "--import",
        MOVES.partition(":")[0],
        *ids,
    )
    assert (tmp_path / "here" / "out.jsonl").exists()
    assert list(elsewhere.iterdir()) == []


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
    umask = os.umask(0o022)
    with recorded_start():
        try:
            monkeypatch.chdir("/")
            os.environ["KEPT"] = "after"
            os.environ["ADDED"] = "after"
            del os.environ["REMOVED"]
            os.umask(0o777)
            restore()
            assert Path.cwd() == tmp_path
            assert (os.environ["KEPT"], os.environ["REMOVED"], os.environ.get("ADDED")) == ("before", "before", None)
            assert os.umask(umask) == 0o022
        finally:
            os.umask(umask)


def test_a_nested_call_keeps_the_first_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with recorded_start():
        monkeypatch.chdir("/")
        with recorded_start():
            assert absolute("a") == tmp_path / "a"
        assert absolute("a") == tmp_path / "a"
