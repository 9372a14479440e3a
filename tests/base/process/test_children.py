"""Environments that start and end processes neither stop nor hang a command, and leave no process behind.

`make soak` adds the other ways, and a whole run with all of them.
"""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from textwrap import indent
from time import monotonic, sleep

import pytest
from turnwise.store.database import open_database
from turnwise.store.run_lock import hold_run
from turnwise.tests.base.process.moves import MOVES
from turnwise.tests.base.process.starts_processes import STARTS, WAYS
from turnwise.tests.soak.sampling import in_soak

from .conftest import Turnwise

pytestmark = pytest.mark.slow
IN_CI = (
    "fork, SIGINT",
    "fork, raise",
    "process, spawn",
    "pool, fork",
    "program",
    "event loop",
    "leaves a process",
    "leaves a thread",
    "leaves a zombie",
)
"""One way of each kind."""


def left_processes(folder: Path) -> list[str]:
    """Return the command lines of live processes that work in ``folder``, without those that end within 5 s.

    The resource tracker of ``multiprocessing`` ends when it finds that the process is gone.
    """
    deadline = monotonic() + 5
    while (found := working_in(folder)) and monotonic() < deadline:
        sleep(0.05)
    return found


def working_in(folder: Path) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink() == folder:
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("way", [*IN_CI, *in_soak(*(way for way in WAYS if way not in IN_CI))])
def test_an_evaluation_survives_processes_of_the_environment(turnwise: Turnwise, tmp_path: Path, way: str) -> None:
    options = ["--policy", "oracle", "--env", STARTS, "--option", f"way={way}", "--tasks", "2", "--json"]
    ran = turnwise("eval", *options, "--store", f"sqlite:///{tmp_path}/t.db")
    assert (ran.code, "stopping" in ran.err) == (0, False), ran.err
    assert json.loads(ran.out)["success"] == 1.0
    assert left_processes(tmp_path) == []


CONFIG = """
name = "started"
preset = "tiny"
max_steps = 1
group_filters = []
[rollout]
groups_per_batch = 8
group_size = 2
[horizon]
max_turns = 2
[sft_warmup]
steps = 2
batch_size = 1
[evaluation]
tasks = 8
"""


@pytest.mark.soak
def test_a_run_survives_its_environments(tmp_path: Path) -> None:
    """They start processes, and change the folder, variables and umask."""
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    here.mkdir()
    elsewhere.mkdir()
    ways = ["fork, SIGTERM", "fork, exit", "pool, fork", "executor", "leaves a fork", "leaves a thread"]
    options = [(STARTS, f'way = "{way}"') for way in ways] + [(MOVES, f'where = "{elsewhere}"')]
    tables = [f'[[environments]]\nid = "{env_id}"\noptions = {{ {option} }}\n' for env_id, option in options]
    (here / "started.toml").write_text(CONFIG + "".join(tables))
    variables = {name: value for name, value in os.environ.items() if name != "TURNWISE_BLOBS"}
    command = [sys.executable, "-m", "turnwise.console.app", "train", "started.toml", "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=280, cwd=here, env=variables)
    assert ran.returncode == 0, ran.stderr
    events = [json.loads(line) for line in ran.stdout.splitlines()]
    assert {"note", "update"} <= {one["event"] for one in events}
    assert [events[-1][key] for key in ("event", "status")] == ["result", "finished"]
    assert left_processes(here) == []
    assert list(elsewhere.iterdir()) == []
    files = {path.name for path in (here / "runs" / "started").iterdir()}
    assert {"checkpoints", "logs", "metrics.jsonl"} <= files
    assert stat.S_IMODE((here / "runs" / "started" / "metrics.jsonl").stat().st_mode) & 0o044


def test_an_environment_ends_a_program_before_ray_is_up(tmp_path: Path) -> None:
    """Until Ray is up, the signals are blocked in the main thread; programs of an environment do not inherit that."""
    program = f"""
from turnwise.envs.runner.once import call_once
from turnwise.base.process.children import isolate_signals
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


def test_a_child_that_is_interrupted_while_it_is_forked_prints_nothing_twice() -> None:
    program = """
import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGINT))  # before the hook of `children`
from turnwise.base.process.children import isolate_signals
isolate_signals()
print("once")  # to a pipe: it stays in the buffer until this process ends
child = os.fork()
if child == 0:
    print("goes on")
else:
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env=buffered)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "once\n1\n", "KeyboardInterrupt\n")


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
