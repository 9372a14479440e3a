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


ENDED = """
import atexit
from turnwise.console.app import main

class Module:
    def __del__(self):
        print("freed")

kept = Module()
atexit.register(print, "closed")
main()
"""


def test_a_command_calls_its_handlers_at_the_end_and_frees_no_modules() -> None:
    program = [sys.executable, "-c", ENDED]
    ended = subprocess.run([*program, "--version"], capture_output=True, text=True, check=True)
    assert ended.stdout.startswith("turnwise ")
    assert "closed" in ended.stdout + ended.stderr
    assert "freed" not in ended.stdout + ended.stderr
    ended = subprocess.run([*program, "runs", "show", "x", "--store", "y"], capture_output=True, text=True, check=False)
    assert (ended.returncode, "closed" in ended.stdout + ended.stderr) == (2, True)
