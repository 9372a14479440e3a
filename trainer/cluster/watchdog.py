"""Kill the processes that a driver started, even if the driver itself was killed, and then print how to go on.

Two signs show that a process belongs to the driver:

* Every process below the driver inherits ``MARK_VARIABLE`` in its environment, and keeps it when its parent, process
  group or session changes.
* Ray's agents overwrite their environment with their title. They stay in the session of the daemon that started them.

The watchdog is a small process in a separate session that holds the other end of a pipe. Each daemon writes its
session to the pipe when it starts. The pipe closes when the driver ends, for any reason; then the watchdog waits
``GRACE_S`` and kills the processes that are left.

A driver that ends in order writes ``END`` to the pipe before. Without it the driver died and printed nothing: by a
`kill -9`, by the kernel for lack of memory, or because Ray's client ends its process when the raylet is gone.
"""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Self

import psutil

MARK_VARIABLE = "TURNWISE_DRIVER"
GRACE_S = 2.0
"""Seconds Ray gets to end its processes itself."""
KILL_TIMEOUT_S = 2.0
"""Seconds to find and kill all marked processes, including those that are just being started."""
POLL_INTERVAL_S = 0.1
END = "end"
"""The line of a driver that ends in order."""


@dataclass
class Notes:
    """What a driver wrote to its watchdog, one line each."""

    sessions: set[int] = field(default_factory=set)
    """A line ``SESSION``: the session that a daemon leads, whose process has the same id."""
    daemons: dict[int, str] = field(default_factory=dict)
    """A line ``PID NAME``: a daemon without which the driver cannot go on."""
    has_ended: bool = False
    """A line ``END``."""

    @classmethod
    def read(cls, lines: Iterable[str]) -> Self:
        """Return the notes of all lines."""
        notes = cls()
        for line in lines:
            first, *name = line.split()
            if first == END:
                notes.has_ended = True
            elif name:
                notes.daemons[int(first)] = name[0]
            else:
                notes.sessions.add(int(first))
        return notes

    def death(self) -> str:
        """Return the line to print for a driver that died; empty if it ended in order."""
        if self.has_ended:
            return ""
        gone = [f"Ray's {name}" for pid, name in self.daemons.items() if not _is_alive(pid)]
        return (
            f"turnwise: {' and '.join(['the driver', *gone])} died; run the same command again (if nobody "
            "killed it, see the kernel's log: often too little memory)"
        )


def start_watchdog() -> "subprocess.Popen[str]":
    """Mark every process that this one starts from now on, and return a watchdog.

    The watchdog reads ``Notes`` from its ``stdin``. It acts when this process ends or closes that pipe.
    """
    unmarked = {name: value for name, value in os.environ.items() if name != MARK_VARIABLE}
    driver = psutil.Process()
    os.environ[MARK_VARIABLE] = f"{driver.pid}-{driver.create_time()}"
    watchdog = subprocess.Popen(
        [sys.executable, "-m", __name__, os.environ[MARK_VARIABLE]],
        stdin=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=unmarked,
    )

    def leave_pipe() -> None:
        """Close the pipe in a forked child, which could outlive the driver: the watchdog would wait for the child."""
        with contextlib.suppress(OSError, ValueError):
            if watchdog.stdin is not None:
                os.close(watchdog.stdin.fileno())

    os.register_at_fork(after_in_child=leave_pipe)
    return watchdog


def owned_processes(mark: str, sessions: AbstractSet[int] = frozenset()) -> list[psutil.Process]:
    """Return the live processes that carry ``mark``, and those of Ray in one of ``sessions``."""
    return [one for one in psutil.process_iter() if _is_owned(one, mark, sessions)]


def _is_owned(process: psutil.Process, mark: str, sessions: AbstractSet[int]) -> bool:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        # A session id may be reused once its processes have ended, so Ray's title must be there too.
        in_session = os.getsid(process.pid) in sessions and process.name().startswith("ray::")
        return in_session or bool(process.environ().get(MARK_VARIABLE) == mark)
    except (psutil.Error, OSError):
        return False


def kill_owned(mark: str, sessions: AbstractSet[int] = frozenset()) -> None:
    """Kill the processes that ``owned_processes`` returns until none is left, for at most ``KILL_TIMEOUT_S``."""
    deadline = time.monotonic() + KILL_TIMEOUT_S
    while (alive := owned_processes(mark, sessions)) and time.monotonic() < deadline:
        for one in alive:
            try:
                one.kill()
            except psutil.Error:
                continue
        psutil.wait_procs(alive, timeout=POLL_INTERVAL_S)


def _is_alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def main() -> None:
    """Read notes until the pipe closes, then kill the processes of their sessions and of the mark in ``argv``."""
    mark = sys.argv[1]
    notes = Notes.read(sys.stdin)
    if line := notes.death():
        with contextlib.suppress(OSError):
            print(line, file=sys.stderr, flush=True)
    deadline = time.monotonic() + GRACE_S
    while owned_processes(mark, notes.sessions) and time.monotonic() < deadline:
        time.sleep(POLL_INTERVAL_S)
    kill_owned(mark, notes.sessions)


if __name__ == "__main__":
    main()
