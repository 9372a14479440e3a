"""Wrong arguments are one line, and help texts have plain placeholders."""

import subprocess
import sys

import pytest

from .conftest import Turnwise


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("trainn", "`turnwise` has no command `trainn` (did you mean `train`?); `turnwise --help` lists the commands"),
        ("replay t0", "`turnwise` has no command `replay` (did you mean `turnwise trajectories replay`?)"),
        ("runs shw", "`turnwise runs` has no command `shw` (did you mean `show`?); `turnwise runs --help` lists"),
        ("train", "`turnwise train` needs CONFIG.toml; `turnwise train --help` lists the options"),
        ("trajectories export", "`turnwise trajectories export` needs the option `--out`"),
        ("train --stor x", "`turnwise train` has no option `--stor` (did you mean `--store`?)"),
        ("train x.toml --set", "the option `--set` needs a value"),
        ("runs list --json=1", "the option `--json` takes no value"),
        ("eval --env x --tasks many", "`--tasks many`: must be an integer"),
        ("eval --env x --tasks 0", "`--tasks 0`: must be at least 1"),
        ("eval --env x --split tset", "`--split tset`: must be one of train, test (did you mean `test`?)"),
        ("eval --env x --temperature nan", "must be a finite number"),
        ("runs show a b", "`turnwise runs show` takes no further argument, got `b`"),
    ],
)
def test_a_wrong_argument_is_one_line(turnwise: Turnwise, words: str, line: str) -> None:
    ended = turnwise(*words.split())
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert ended.err.startswith("turnwise: ")
    assert line in ended.err


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
