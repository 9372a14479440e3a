"""The program ``turnwise`` before its command runs."""

import subprocess
import sys

INTERRUPTED = """
import sys
from turnwise.console.app import main

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupts())
main()
"""


def test_ctrl_c_during_the_imports_prints_no_traceback() -> None:
    ended = subprocess.run([sys.executable, "-c", INTERRUPTED, "envs", "list"], capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (130, b"")
