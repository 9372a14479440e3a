"""Process 1 of a container: reap orphans, and report to the host how the guest agent ended.

The guest agent is a child of this process. No process of a sandbox user can signal either of them, so the agent ends
early for two reasons: the memory limit of the sandbox killed it, which its commands caused, or something outside did.
If this process ends too, without a report, something outside the sandbox ended all of it.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import socket
import struct

from .frames import encode
from .processes import count_limit_hits, count_ooms, memory_share

COUNTS = struct.Struct("=QQ")
FULL_SHARE = 0.5
"""Least share of its limit that a sandbox uses after its guest agent was killed for memory that its commands keep."""
SCORE = b"10"
"""Addend to the badness of the guest agent: the kernel kills it before process 1, and after every command."""


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
