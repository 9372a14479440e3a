"""`make` without a target explains itself."""

import re
import subprocess
from pathlib import Path

from turnwise.tests.soak.soak import TESTS

ROOT = Path(__file__).resolve().parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()


def test_make_lists_every_target_with_its_comment() -> None:
    printed = subprocess.run(["make", "-C", str(ROOT)], capture_output=True, text=True, check=True, timeout=30).stdout
    (phony,) = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    listed = dict(re.findall(r"^  make ([a-z-]+) +(\S.*)$", printed, re.MULTILINE))
    assert list(listed) == phony.split()


def test_every_variable_of_the_soak_is_read_by_a_test() -> None:
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    settings = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("conftest.py"))
    for name in {name for _, variables in TESTS.values() for name in variables}:
        assert f'os.environ.get("{name}"' in tests + settings, name
