"""Find, kill and reap the processes of the sandbox users, count kills by the memory limit, and watch the guest agent.

The guest agent of a container is a child of process 1, which reaps orphans and reports to the host how the agent ended.
No process of a sandbox user can signal either of them, so the agent ends early for two reasons: the memory limit of the
sandbox killed it, which its commands caused, or something outside did. If process 1 ends too, without a report,
something outside the sandbox ended all of it.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import socket
import struct
import time
from collections.abc import Iterator

from .frames import encode

USERS = 4
"""Users of a sandbox whose guest agent is root: numbers 0 to 3, whose uids follow one another."""
COUNTS = struct.Struct("=QQ")
FULL_SHARE = 0.5
"""Least share of its limit that a sandbox uses after its guest agent was killed for memory that its commands keep."""
SCORE = b"10"
"""Addend to the badness of the guest agent: the kernel kills it before process 1, and after every command."""


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


class MemoryRecord:
    """The counters of the memory limit after the last request, in memory that the guest agent and process 1 share."""

    def __init__(self) -> None:
        self.shared = mmap.mmap(-1, COUNTS.size)

    def update(self) -> None:
        """Store the counters as they are now."""
        self.shared[: COUNTS.size] = COUNTS.pack(count_ooms(), count_limit_hits() or 0)

    def limit_killed(self) -> bool:
        """Return whether a process was killed since ``update`` because the memory limit of the sandbox was reached.

        If memory of the host runs out, a process is killed without that. A control group of version 1 does not count
        how often its limit was reached; then the sandbox is still full, because its guest agent takes little.
        """
        ooms, hits = COUNTS.unpack(self.shared[: COUNTS.size])
        if count_ooms() <= int(ooms):
            return False
        now = count_limit_hits()
        return memory_share() >= FULL_SHARE if now is None else now > int(hits)


def watch(connection: socket.socket, record: MemoryRecord) -> None:
    """Return in a child, the guest agent; this process reaps until the child has ended, reports why, and exits."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "wb", buffering=0) as file:
            file.write(SCORE)
        return
    # Process 1 ignores signals that it has no handler for, so that the engine could not stop the container.
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(128 + signal.SIGTERM))
    while True:
        pid, status = os.wait()
        if pid == child:
            break
    code = os.waitstatus_to_exitcode(status)
    if code:
        with contextlib.suppress(OSError):
            connection.settimeout(1.0)
            connection.sendall(encode({"ended": ending(code, record.limit_killed())}))
    os._exit(code % 256)


def ending(code: int, limit_killed: bool) -> dict[str, object]:
    """Return whether the commands of the sandbox ended its guest agent, and how it ended."""
    if code == -signal.SIGKILL and limit_killed:
        return {"broken": True, "reason": "its memory limit killed its guest agent"}
    if code < 0:
        return {"broken": False, "reason": f"something outside the sandbox sent signal {-code} to its guest agent"}
    return {"broken": True, "reason": f"its guest agent failed with exit code {code}"}
