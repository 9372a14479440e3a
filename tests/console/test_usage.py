"""Help texts, the package as a program, and completion; ``test_mistakes.py`` has wrong arguments."""

import subprocess
import sys

import pytest

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
