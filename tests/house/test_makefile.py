"""`make` without a target explains itself."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()


def test_make_lists_every_target_with_its_comment() -> None:
    printed = subprocess.run(["make", "-C", str(ROOT)], capture_output=True, text=True, check=True, timeout=30).stdout
    (phony,) = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    listed = dict(re.findall(r"^  make ([a-z-]+) +(\S.*)$", printed, re.MULTILINE))
    assert list(listed) == phony.split()
