"""A task folder as a user writes it: one function to repair, hidden pytest files, a protected visible test."""

from pathlib import Path

TOML = """
instruction = "add of calc.py must add. Repair it."
protected = ["tests/*"]

[limits]
command_seconds = 3
case_seconds = 2
memory_mib = 128
disk_mib = 16
pids = 64
"""
BROKEN = "def add(one, two):\n    return one - two\n"
FIXED = "def add(one, two):\n    return one + two\n"
HIDDEN = """
import pytest
from calc import add


@pytest.mark.parametrize("number", [1, 2, 30])
def test_adds(number):
    assert add(number, 2) == number + 2


def test_nothing():
    assert add(0, 0) == 0
"""


def write(folder: Path, files: dict[str, str]) -> Path:
    """Return the files below a folder."""
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)
    return folder


def small_task(folder: Path, **other: str) -> Path:
    """Write the task folder and return it; ``other`` replaces its ``task.toml``, hidden test or file."""
    hidden = other.get("hidden", HIDDEN)
    return write(
        folder,
        {
            **({"tests/test_hidden.py": hidden} if hidden else {}),
            "task.toml": other.get("toml", TOML),
            "workspace/calc.py": BROKEN,
            "workspace/tests/test_calc.py": "from calc import add\n\n\ndef test_add():\n    assert add(1, 1) == 2\n",
            "solution/calc.py": FIXED,
        },
    )
