"""Help texts, the package as a program, and completion; ``test_mistakes.py`` has wrong arguments."""

import subprocess
import sys
from pathlib import Path

import pytest
import typer
from turnwise.base.process.start import recorded_start, restore
from turnwise.console.command_line import app
from turnwise.console.usage import leaves
from turnwise.store.database import open_database
from turnwise.store.project import run_folder
from turnwise.tests.store.making import create_run

from .conftest import Turnwise


@pytest.mark.parametrize("words", ["envs play", "train", "runs", "runs lineage"])
def test_a_help_text_has_plain_placeholders(turnwise: Turnwise, words: str) -> None:
    ended = turnwise(*words.split(), "-h")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == turnwise(*words.split(), "--help").out
    assert "{" not in ended.out
    assert "range>" not in ended.out


def test_a_group_without_a_command_prints_its_help(turnwise: Turnwise) -> None:
    ended = turnwise("runs")
    assert (ended.code, ended.out) == (2, "")
    assert "Usage: turnwise runs [OPTIONS] COMMAND" in ended.err


def test_the_package_is_a_program() -> None:
    ended = subprocess.run([sys.executable, "-m", "turnwise", "--version"], capture_output=True, text=True, check=True)
    assert ended.stdout.startswith("turnwise ")


def test_the_shell_completes_commands(turnwise: Turnwise, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_TURNWISE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "turnwise runs sh")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert turnwise().out.split() == ["show"]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("runs show ", ["second", "demo"]),
        ("runs show de", ["demo"]),
        ("runs compare demo sec", ["second"]),
        ("trajectories list --run s", ["second"]),
        ("eval --policy d", ["demo"]),
        ("runs show x", []),
    ],
)
def test_the_shell_completes_the_names_of_runs(
    turnwise: Turnwise, store: str, monkeypatch: pytest.MonkeyPatch, words: str, offered: list[str]
) -> None:
    database = open_database(store)
    create_run(database, "second")
    database.close()
    folder = Path(store.removeprefix("sqlite:///")).parent
    before = set(folder.iterdir())
    assert completions(turnwise, monkeypatch, words, store) == offered
    assert set(folder.iterdir()) == before, "a reader leaves no log beside the store"


@pytest.mark.parametrize("url", ["sqlite:///{}/none.db", "postgresql://user@127.0.0.1:9/none", "nonsense"])
def test_a_store_that_is_not_a_file_here_completes_nothing(
    turnwise: Turnwise, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    assert completions(turnwise, monkeypatch, "runs show ", url.format(tmp_path)) == []
    assert list(tmp_path.iterdir()) == []


def completions(turnwise: Turnwise, monkeypatch: pytest.MonkeyPatch, words: str, store: str) -> list[str]:
    """Return the words that a shell offers at the end of a command line."""
    monkeypatch.setenv("TURNWISE_STORE", store)
    monkeypatch.setenv("_TURNWISE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", f"turnwise {words}")
    monkeypatch.setenv("COMP_CWORD", str(len(f"turnwise {words}x".split()) - 1))
    ended = turnwise()
    assert ended.err == ""
    return ended.out.split()


def test_the_folder_of_runs_is_named_for_a_command_and_the_processes_that_it_starts(
    turnwise: Turnwise, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = open_database(f"sqlite:///{tmp_path}/own/turnwise.db", create=True)
    with recorded_start():
        turnwise("runs", "list", "--store", database.url, "--runs", str(tmp_path / "named"))
        restore()
        assert run_folder(database, "r") == tmp_path / "named" / "r"
    monkeypatch.setenv("TURNWISE_RUNS", "")
    assert run_folder(database, "r") == tmp_path / "own" / "r"
    database.close()


def test_no_two_parameters_of_a_command_have_one_name() -> None:
    """Click gives both the value of either: `--run` of some commands, named `runs`, also set `--runs`."""
    for path, command in leaves(typer.main.get_command(app)):
        names = [one.name for one in command.params]
        assert len(names) == len(set(names)), path
