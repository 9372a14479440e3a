"""Who a sandbox belongs to, written on it, and whether that owner is surely dead.

An owner is a process: its pid alone says nothing (pids are reused, and every pid namespace has its own), so its start
time and the identity of its machine and namespace go with it. A judgement is made only where it can be: of a process
of another machine nothing is known but that its sandbox has outlived its time.
"""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

MARK = "turnwise.sandbox"
RUN = "turnwise.run"
HOST = "turnwise.host"
PID = "turnwise.pid"
STARTED = "turnwise.started"
EXPIRES = "turnwise.expires"
EXPIRED_FOR = 60.0
"""Seconds a sandbox has to end itself after its time to live, before the reaper does it."""


def start_time(pid: int) -> str | None:
    """When a process of this machine began, in clock ticks since boot; None if there is none, or it is a zombie.

    Raises:
        OSError: that cannot be told.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return "unknown" if _is_there(pid) else None
    return None if fields[0] in "ZX" else fields[19]


def _is_there(pid: int) -> bool:
    """Whether a process answers to this number, be its folder hidden or not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def this_host() -> str:
    """This boot of this machine, and this process's namespace of pids."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"  # noqa: PTH116 - follows the link to its inode


def labels(run: str, ttl: float) -> dict[str, str]:
    """What to write on a sandbox that this process owns."""
    return {
        MARK: "1",
        RUN: run,
        HOST: this_host(),
        PID: str(os.getpid()),
        STARTED: start_time(os.getpid()) or "",
        EXPIRES: f"{time.time() + ttl:.0f}",
    }


def why_dead(found: Mapping[str, str], now: float, host: str, started: Callable[[int], str | None] = start_time) -> str:
    """Why a sandbox with these labels may be removed; empty unless that is sure.

    ``now`` is in seconds since the epoch; ``host`` is who judges; ``started`` tells when a process of this host began.
    """
    try:
        expires, pid = float(found[EXPIRES]), int(found[PID])
        owner_host, owner_started = found[HOST], found[STARTED]
    except (KeyError, ValueError):
        return ""
    if found.get(MARK) != "1" or not owner_started:
        return ""
    if now > expires + EXPIRED_FOR:
        return f"its time to live was over {now - expires:.0f} s ago"
    try:
        began = started(pid) if owner_host == host else "unknown"
    except OSError:
        return ""
    return "" if began in ("unknown", owner_started) else f"its owner, process {pid}, is dead"
