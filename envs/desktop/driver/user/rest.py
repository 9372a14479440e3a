"""Wait until no process of the desktop has anything left to do.

Input wakes the application before the X server answers the driver, so an action's work is visible in /proc as soon as
it was sent. Two looks are taken. If every thread rests in both and none ran in between, there is an instant at which
all of them rested, and no message can be on its way: a message wakes its reader when it is written. A thread that waits
for the next frame, or defers an update, has a short timeout and does not rest. So the wait is as long as the work, not
a fixed time; a program that never rests ends the wait at its limit.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, sleep

from .processes import activity, all_processes, cpu_of_runnable, has_terminal

TERMINAL_HOLD_S = 0.03
"""Rest must hold so long while a terminal is open: the kernel delivers its text a moment after it was written."""
HOLD_PER_DELAY = 4.0
"""The hold grows by so many times the delay of this process: on a busy machine, the kernel delivers later, too."""
EXTENSION_CPU_S = 0.5
"""Processor time after which the extra time ends: an endless loop uses it up at once."""
POLL_INTERVAL_S = 0.001
MAX_POLL_INTERVAL_S = 0.008
"""The interval grows up to this: each look takes processor time, which a busy application and other desktops need."""
POLL_GROWTH = 1.3


def wait(
    untimed: frozenset[int], timeout_s: float, hold_s: float, extension_s: float, look: Callable[[list[int]], None]
) -> bool:
    """Wait until all processes rest, for ``hold_s`` at least; return whether they do.

    The timers of the processes ``untimed`` do not count. ``extension_s`` is extra time for threads that are ready to
    run but do not get a processor, on a loaded machine. ``look`` is called with the processes.
    """
    until = monotonic() + timeout_s
    used_before: float | None = None
    last, since = None, 0.0
    interval, delay = POLL_INTERVAL_S, 0.0
    while True:
        pids = all_processes()
        look(pids)
        counts = activity(pids, untimed)
        if counts is not None and counts == activity(all_processes(), untimed):
            if counts != last:
                last, since = counts, monotonic()
            hold = max(hold_s, TERMINAL_HOLD_S if has_terminal(pids) else 0.0)
            if not hold or monotonic() - since >= hold + HOLD_PER_DELAY * delay:
                return True
        if monotonic() > until:
            used = cpu_of_runnable(all_processes())
            used_before = used if used_before is None else used_before
            if used is None or used_before is None or used - used_before > EXTENSION_CPU_S:
                return False
            if monotonic() > until + extension_s:
                return False
        asleep = monotonic()
        sleep(interval)
        delay = max(delay, monotonic() - asleep - interval)
        interval = min(interval * POLL_GROWTH, MAX_POLL_INTERVAL_S)
