"""Find, kill and reap the processes of the sandbox users, and count kills by the memory limit."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator

KILL_TIMEOUT_S = 2.0
KILL_POLL_INTERVAL_S = 0.001
END_POLL_INTERVAL_S = 0.0005
"""The end of a process is polled, within ``KILL_TIMEOUT_S``: no event reports it for a process that is not a child."""
OOM_COUNTERS = ("/sys/fs/cgroup/memory/memory.oom_control", "/sys/fs/cgroup/memory.events")

WATCHED: dict[int, int | None] = {}
"""Children whose wait status ``reap`` must keep, by pid; None until they exit."""


def processes() -> Iterator[tuple[int, int]]:
    """Yield (pid, start time in clock ticks since boot) of every live process except init and the agent."""
    own = {1, os.getpid(), os.getppid()}
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in own:
            # As bytes: a process chooses its own name, which need not be valid text.
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
                # Other threads of a zombie may still be alive, with its sockets and memory.
                if fields[0] not in (b"Z", b"X") or int(fields[17]) > 1:
                    yield int(name), int(fields[19])


def kill_all() -> None:
    """Kill every process except init and the agent, in one system call, so that no process can fork to escape."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)


def reap() -> None:
    """Collect the exit status of every child that has exited."""
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            if found[0] in WATCHED:
                WATCHED[found[0]] = found[1]


def count_ooms() -> int:
    """Return how many processes the sandbox's memory limit has killed so far; 0 without a control group."""
    for path in OOM_COUNTERS:
        with contextlib.suppress(OSError), open(path) as file:
            for line in file:
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    return 0


def count_limit_hits() -> int | None:
    """Return how often a process asked for more than the sandbox's memory limit so far; None in a version 1 group."""
    with contextlib.suppress(OSError), open("/sys/fs/cgroup/memory.events") as file:
        for line in file:
            if line.startswith("oom "):
                return int(line.split()[1])
    return None


def memory_share() -> float:
    """Return the share of its memory limit that a version 1 control group uses now; 0 without one."""
    with contextlib.suppress(OSError, ZeroDivisionError):
        values = []
        for name in ("usage", "limit"):
            with open(f"/sys/fs/cgroup/memory/memory.{name}_in_bytes") as file:
                values.append(int(file.read()))
        return values[0] / values[1]
    return 0.0


def kill_since(tick: int) -> None:
    """Kill every process of the sandbox users that started at or after a clock tick; after a timeout, kill all."""
    until = time.monotonic() + KILL_TIMEOUT_S
    while found := [pid for pid, started in processes() if started >= tick]:
        if time.monotonic() > until:
            kill_all()
            break
        # Stop all before killing any: a stopped fork bomb cannot replace the processes that are killed.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in found:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
        reap()
        time.sleep(KILL_POLL_INTERVAL_S)


def end_all() -> None:
    """Kill every process of the sandbox users and wait until all have exited.

    Raises:
        TimeoutError: some processes are still alive after ``KILL_TIMEOUT_S``.
    """
    kill_all()
    until = time.monotonic() + KILL_TIMEOUT_S
    while any(processes()):
        if time.monotonic() > until:
            raise TimeoutError(f"processes of the sandbox user did not exit within {KILL_TIMEOUT_S:g} s")
        reap()
        time.sleep(END_POLL_INTERVAL_S)
    reap()


USERS = 4
"""Users of a sandbox whose guest agent is root: numbers 0 to 3, whose uids follow one another."""
