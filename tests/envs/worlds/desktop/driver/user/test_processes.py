"""Rest of processes, read from /proc, on real processes."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic, sleep

from turnwise.envs.worlds.desktop.driver.user.processes import activity, runs_other

NONE: frozenset[int] = frozenset()


@contextmanager
def running(script: str) -> Iterator[int]:
    """Run a Python script and yield its pid once it has written a line."""
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.kill()


def rests_within(pid: int, seconds: float, untimed: frozenset[int] = NONE) -> bool:
    """Return whether the process rests at some moment of a time."""
    until = monotonic() + seconds
    while activity([pid], untimed) is None:
        if monotonic() > until:
            return False
        sleep(0.002)
    return True


def test_a_process_that_waits_for_input_rests_and_has_not_run_since() -> None:
    with running("import select; print(flush=True); select.poll().poll()") as pid:
        assert rests_within(pid, 2)
        assert activity([pid], NONE) == activity([pid], NONE)


def test_a_process_with_a_short_timer_works() -> None:
    with running("import select\nprint(flush=True)\nwhile True: select.poll().poll(100)") as pid:
        assert not rests_within(pid, 0.3)
        assert rests_within(pid, 2, frozenset({pid}))


def test_a_busy_process_works() -> None:
    with running("print(flush=True)\nwhile True: pass") as pid:
        assert not rests_within(pid, 0.2)
        assert not rests_within(pid, 0.1, frozenset({pid}))


def test_a_process_that_ran_meanwhile_has_another_count() -> None:
    with running("import time\nprint(flush=True)\nwhile True: time.sleep(0.02)") as pid:
        assert rests_within(pid, 2)
        before = activity([pid], NONE)
        sleep(0.1)
        assert before != activity([pid], NONE)


def test_the_name_of_a_process_may_be_any_bytes() -> None:
    rename = "ctypes.CDLL(None).prctl(15, b'\\xff) R \\xfe')"
    with running(f"import ctypes, select; {rename}; print(flush=True); select.poll().poll()") as pid:
        assert rests_within(pid, 2)


def test_programs_of_the_agent_are_no_applications() -> None:
    assert runs_other([os.getpid()])
    assert not runs_other([])
