"""The payload's processes: finding them, ending them, reaping them, and what the memory limit did to them."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator

KILL_SECONDS = 2.0
OOM_COUNTERS = ("/sys/fs/cgroup/memory/memory.oom_control", "/sys/fs/cgroup/memory.events")


def processes() -> Iterator[tuple[int, int]]:
    """Pid and start, in clock ticks, of every process of the payload that has not ended: all but init and this one."""
    mine = {1, os.getpid(), os.getppid()}
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in mine:
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
                if fields[0] not in "ZX":
                    yield int(name), int(fields[19])


def kill_all() -> None:
    """End every process but init and this one; one call, so that nothing can fork its way out."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)


def reap() -> None:
    """Take the exit status of every child that has ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def count_ooms() -> int:
    """How often the box's memory limit has killed something; 0 where no one counts."""
    for path in OOM_COUNTERS:
        with contextlib.suppress(OSError), open(path) as file:
            for line in file:
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    return 0


def kill_since(tick: int) -> None:
    """End every process of the payload that began at or after a clock tick."""
    until = time.monotonic() + KILL_SECONDS
    while found := [pid for pid, began in processes() if began >= tick]:
        if time.monotonic() > until:
            kill_all()
            break
        # Stopped first, a fork bomb stands still while it is ended.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in found:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
        reap()
        time.sleep(0.001)


def end_all() -> None:
    """End every process of the payload, and wait until they are gone.

    Raises:
        ValueError: some would not go.
    """
    kill_all()
    until = time.monotonic() + KILL_SECONDS
    while any(processes()):
        if time.monotonic() > until:
            raise ValueError("processes of the payload would not end")
        reap()
        time.sleep(0.0005)
    reap()
