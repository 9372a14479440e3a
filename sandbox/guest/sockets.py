"""Limit the sockets of the sandbox: the kernel charges a connection that no process has accepted to no memory limit.

Without this limit, a sandbox of 64 MiB could hold gigabytes of the machine in connections to itself, each with data.
"""

from __future__ import annotations

import contextlib
import signal
from typing import Any

from .processes import kill_all

SOCKETS_MAX = 1024
"""Sockets of all processes together, including connections that wait to be accepted."""
CHECK_INTERVAL_S = 0.25


def count_sockets() -> int:
    """Return the number of sockets in this network namespace; 0 where the kernel does not count them, as in gVisor."""
    with contextlib.suppress(OSError), open("/proc/net/sockstat", "rb") as file:
        return int(file.readline().split()[2])
    return 0


class SocketLimit:
    """Kills every process of the sandbox users soon after they exceed ``SOCKETS_MAX``, from ``start`` to ``stop``."""

    def __init__(self) -> None:
        self.kills = 0
        """How often the limit was exceeded."""
        # A signal, because it also interrupts a system call for which the guest agent waits.
        signal.signal(signal.SIGALRM, self._check)

    def start(self) -> None:
        """Check at regular intervals from now on; children do not inherit the timer."""
        if not signal.getitimer(signal.ITIMER_REAL)[1]:
            signal.setitimer(signal.ITIMER_REAL, CHECK_INTERVAL_S, CHECK_INTERVAL_S)

    def stop(self) -> None:
        """End the checks, while no process of a sandbox user is alive."""
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _check(self, number: int, frame: Any) -> None:
        if count_sockets() > SOCKETS_MAX:
            self.kills += 1
            kill_all()
