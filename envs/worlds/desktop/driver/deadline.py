"""The deadline of a request, who is at fault if the request exceeds it, and timeouts of single waits (``Timeout``).

A request that is late because the agent's programs are busy or stopped is an outcome. A request that is late because
the desktop gets no processor is a failure of the world. The kernel counts how long each program computed and how long
it waited for a processor; these times since the middle of the request distinguish the two. A ``Timeout`` does not count
the time in which this process got no processor.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Mapping
from pathlib import Path
from time import monotonic

from .errors import DeadlineExceeded

BUSY_SHARE = 0.2
"""Share of a processor that programs which are done with an action do not use, even together."""
STARVED_SHARE = 0.5
"""Share of the time in which a program waits for a processor, from which the machine is at fault."""
NANOSECONDS = 1e9
LEAST_S = 1e-3
INTERVAL_S = 0.02
"""Read ``left_s`` this often: a longer interval, in which this process got no processor, counts as this one."""
MAX_STRETCH = 3.0
"""The wait ends after so many times its timeout in any case."""

Times = Mapping[int, tuple[float, float]]
"""By process id: seconds on a processor, and seconds of waiting for one."""


def process_times() -> Times:
    """Return the times of the main threads of all processes."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            ran, waited, _ = (process / "schedstat").read_text().split()
            found[int(process.name)] = int(ran) / NANOSECONDS, int(waited) / NANOSECONDS
    return found


def at_fault(before: Times, after: Times, seconds: float) -> str:
    """Return ``page``, which stands for the agent's programs, or ``machine``; ``seconds`` lie between the two times."""
    used = [
        (ran - before.get(process, (0.0, 0.0))[0], waited - before.get(process, (0.0, 0.0))[1])
        for process, (ran, waited) in after.items()
    ]
    if sum(ran for ran, _ in used) >= BUSY_SHARE * seconds:
        return "page"
    return "machine" if any(waited >= STARVED_SHARE * seconds for _, waited in used) else "page"


class Deadline:
    """Raises DeadlineExceeded in the main thread after ``seconds``, whatever it waits for; there is one at a time."""

    now: Deadline | None = None
    """The deadline that is running."""

    def __init__(self, seconds: float) -> None:
        self.until = monotonic() + seconds
        self._seconds = seconds
        self._half: tuple[float, Times] | None = None

    def __enter__(self) -> Deadline:
        Deadline.now = self
        signal.signal(signal.SIGALRM, self._tick)
        signal.setitimer(signal.ITIMER_REAL, self._seconds / 2)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        Deadline.now = None

    def at_fault(self) -> str:
        """Return who made the request late (``at_fault``)."""
        if self._half is None:
            return "machine"  # the signal in the middle has not arrived
        began, before = self._half
        return at_fault(before, process_times(), max(monotonic() - began, LEAST_S))

    def _tick(self, *_: object) -> None:
        if self._half is not None:
            raise DeadlineExceeded("deadline exceeded")
        self._half = monotonic(), process_times()
        signal.setitimer(signal.ITIMER_REAL, max(self.until - monotonic(), LEAST_S))


def left_s() -> float | None:
    """Return the seconds until the deadline that is running; None without one."""
    return None if Deadline.now is None else max(Deadline.now.until - monotonic(), 0.0)


class Timeout:
    """A timeout of ``seconds``, from now on."""

    def __init__(self, seconds: float) -> None:
        self._left_s = seconds
        self._seen = monotonic()
        self._until = self._seen + MAX_STRETCH * seconds

    def left_s(self) -> float:
        """Return the time left; 0 or less after the timeout."""
        now = monotonic()
        self._left_s -= min(now - self._seen, INTERVAL_S)
        self._seen = now
        return min(self._left_s, self._until - now)
