"""Progress is shown on a terminal only, and removed before other output."""

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


def test_nothing_is_shown_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress()
    progress("digests", 1, 0)
    progress.clear()
    assert capsys.readouterr().err == ""
