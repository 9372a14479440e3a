"""The hook of commit messages checks the subject."""

import runpy
from pathlib import Path
from typing import Any

import pytest

TOOL: Any = runpy.run_path(str(Path(__file__).resolve().parents[2] / "tools" / "check_subject.py"))


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("docs: cut a page\n\nA body that says why.\n", ""),
        ("# a comment\nsandbox, process, agents: correct findings of a review\n", ""),
        ('Revert "docs: cut a page"\n', ""),
        ("docs: " + "a" * 67, "has 73 characters"),
        ("Cut a page", "not of the form"),
        ("docs: Cut a page", "not of the form"),
        ("docs: cut a page.", "not of the form"),
        ("", "not of the form"),
    ],
)
def test_the_subject_is_checked(message: str, reason: str) -> None:
    found = TOOL["fault"](message)
    assert reason in found
    assert bool(found) == bool(reason)
