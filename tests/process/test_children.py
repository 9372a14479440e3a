"""Environments that start and end processes neither stop nor hang a command, and leave no process behind."""

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import indent

import pytest
from turnwise.store.database import open_database
from turnwise.store.run_lock import hold_run
from turnwise.tests.process.starts_processes import STARTS, WAYS

pytestmark = pytest.mark.slow


def evaluate(folder: Path, way: str, *more: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "turnwise.console.app", "eval", "--policy", "oracle", "--env", STARTS]
    command += ["--option", f"way={way}", "--tasks", "2", "--json", "--store", f"sqlite:///{folder}/t.db", *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=folder)


def left_processes(folder: Path) -> list[str]:
    """Return the command lines of live processes that work in ``folder``."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink() == folder:
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("way", WAYS)
def test_an_evaluation_survives_processes_of_the_environment(tmp_path: Path, way: str) -> None:
    ran = evaluate(tmp_path, way)
    assert (ran.returncode, "stopping" in ran.stderr) == (0, False), ran.stderr
    assert json.loads(ran.stdout)["success"] == 1.0
    assert left_processes(tmp_path) == []


CONFIG = """
name = "started"
preset = "tiny"
max_steps = 1
group_filters = []
[rollout]
groups_per_batch = 6
group_size = 2
[horizon]
max_turns = 2
[sft_warmup]
steps = 2
batch_size = 1
[evaluation]
tasks = 0
"""


def test_a_run_survives_processes_of_its_environments(tmp_path: Path) -> None:
    ways = ["fork, SIGTERM", "fork, exit", "pool, fork", "executor", "leaves a fork", "leaves a thread"]
    tables = [f'[[environments]]\nid = "{STARTS}"\noptions = {{ way = "{way}" }}\n' for way in ways]
    (tmp_path / "started.toml").write_text(CONFIG + "".join(tables))
    command = [sys.executable, "-m", "turnwise.console.app", "train", "started.toml", "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=280, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["status"] == "finished"
    assert left_processes(tmp_path) == []


def test_an_environment_ends_a_program_before_ray_is_up(tmp_path: Path) -> None:
    """Until Ray is up, the signals are blocked in the main thread; programs of an environment do not inherit that."""
    program = f"""
from turnwise.envs.runner.once import call_once
from turnwise.process.children import isolate_signals
from turnwise.trainer.shutdown import SHUTDOWN
isolate_signals()
SHUTDOWN.install()
for way in ("program", "process, spawn", "fork, SIGTERM", "pool, fork"):
    call_once({STARTS!r}, {{"way": way, "where": "make"}}, "vocabulary", lambda env: env.vocabulary())
print("ended")
"""
    code = tmp_path / "program.py"
    code.write_text("if __name__ == '__main__':\n" + indent(program, "    "))
    ran = subprocess.run([sys.executable, code], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout) == (0, "ended\n"), ran.stderr


def test_a_forked_child_does_not_hold_the_lock_of_the_run(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path}/t.db", create=True)
    started, starts = os.pipe()
    ends, end = os.pipe()
    with hold_run(database, "one"):
        child = os.fork()
        if child == 0:
            os.write(starts, b".")
            os.read(ends, 1)
            os._exit(0)
        os.read(started, 1)
    try:
        with hold_run(database, "one"):
            pass
    finally:
        os.write(end, b".")
        os.waitpid(child, 0)
        database.close()
