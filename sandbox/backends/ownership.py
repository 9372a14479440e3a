"""Ownership labels of a sandbox, whether its owner is certainly dead, and the sandbox in the list of a backend.

The owner is a process. Pids are reused and each pid namespace has its own, so the labels also contain the start time of
the process and the identity of its machine and namespace. For a process of another machine or namespace, only the
sandbox's time to live can show that the sandbox may be removed.
"""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

LABEL = "turnwise.sandbox"
RUN = "turnwise.run"
HOST = "turnwise.host"
PID = "turnwise.pid"
STARTED = "turnwise.started"
EXPIRES = "turnwise.expires"
UID = "turnwise.uid"
"""First of the uids of its users."""
EXPIRY_GRACE_S = 60.0
"""Time after its time to live in which a sandbox may end by itself before it is reaped."""


def start_time(pid: int) -> str | None:
    """Return the start time of a process of this machine in clock ticks since boot; None if it is dead or a zombie.

    Returns ``unknown`` if the process exists but /proc hides it.

    Raises:
        OSError: the start time cannot be read.
    """
    try:
        # As bytes: a process chooses its own name, which need not be valid text.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return "unknown" if _exists(pid) else None
    return None if fields[0] in (b"Z", b"X") else fields[19].decode()


def _exists(pid: int) -> bool:
    """Return whether a process with this pid exists, even if /proc hides it."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def this_host() -> str:
    """Return the identity of this boot of this machine and of this process's pid namespace."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"  # noqa: PTH116 - follows the link to its inode


def labels(run: str, ttl_s: float) -> dict[str, str]:
    """Return the labels of a new sandbox that this process owns."""
    return {
        LABEL: "1",
        RUN: run,
        HOST: this_host(),
        PID: str(os.getpid()),
        STARTED: start_time(os.getpid()) or "",
        EXPIRES: f"{time.time() + ttl_s:.0f}",
    }


def reap_reason(
    found: Mapping[str, str], now: float, host: str, started: Callable[[int], str | None] = start_time
) -> str:
    """Return why a sandbox with the labels ``found`` may be removed; empty unless that is certain.

    ``now`` is in seconds since the epoch, ``host`` the identity of this process's machine and namespace, and
    ``started`` returns the start time of a process of ``host``.
    """
    try:
        expires, pid = float(found[EXPIRES]), int(found[PID])
        owner_host, owner_started = found[HOST], found[STARTED]
    except (KeyError, ValueError):
        return ""
    if found.get(LABEL) != "1" or not owner_started:
        return ""
    if now > expires + EXPIRY_GRACE_S:
        return f"its time to live ended {now - expires:.0f} s ago"
    try:
        began = started(pid) if owner_host == host else "unknown"
    except OSError:
        return ""
    return "" if began in ("unknown", owner_started) else f"its owner, process {pid}, is dead"


@dataclass(frozen=True, slots=True)
class SandboxInfo:
    """State and owner of one sandbox, read from its labels; a field whose label is missing or invalid is empty."""

    id: str
    status: str
    image: str
    run: str
    owner: str
    """``process PID``, followed by ``elsewhere`` for a process of another machine or pid namespace."""
    expires: str
    """End of its time to live, as an ISO timestamp in UTC."""
    reap_reason: str
    """Why the sandbox may be removed; empty unless that is certain."""


def describe(name: str, status: str, image: str, labels: Mapping[str, str], reap_reason: str) -> SandboxInfo:
    """Return the info of a sandbox with these labels."""
    place = "" if labels.get(HOST) == this_host() else " elsewhere"
    try:
        expires = datetime.fromtimestamp(float(labels[EXPIRES]), UTC).isoformat(timespec="seconds")
    except (KeyError, ValueError, OverflowError, OSError):
        expires = ""
    return SandboxInfo(
        id=name,
        status=status,
        image=image,
        run=labels.get(RUN, ""),
        owner=f"process {labels[PID]}{place}" if labels.get(PID) else "",
        expires=expires,
        reap_reason=reap_reason,
    )
