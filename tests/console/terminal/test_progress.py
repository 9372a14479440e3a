"""Progress is shown in place on a terminal, and removed before other output; a pipe receives lines."""

import sys

import pytest
from turnwise.console.terminal.output import Progress


def test_the_line_is_shown_and_removed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    progress = Progress()
    progress("digests", 1000, 2000)
    progress("digests", 1001, 2000)
    progress.clear()
    progress.clear()
    assert capsys.readouterr().err == "\r\x1b[Kdigests: 1,000 of 2,000\r\x1b[K"


def test_a_pipe_receives_lines_and_no_counts(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress()
    progress("digests", 1, 0)
    progress.clear()
    assert capsys.readouterr().err == ""
    progress.show("3 of 8 episodes")
    progress.show("5 of 8 episodes")
    progress.clear()
    assert capsys.readouterr().err == "3 of 8 episodes\n5 of 8 episodes\n"
