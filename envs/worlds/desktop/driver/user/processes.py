"""The processes of the sandbox user: waiting until all of them rest, and killing those of an episode.

Input wakes the application before the X server answers the driver, so an action's work is visible in /proc as soon as
it was sent. Two looks are taken. If every thread rests in both and none ran in between, there is an instant at which
all of them rested, and no message can be on its way: a message wakes its reader when it is written. A thread that waits
for the next frame, or defers an update, has a short timeout and does not rest. So the wait is as long as the work, not
a fixed time; a program that never rests ends the wait at its limit.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from collections.abc import Callable, Iterable
from time import monotonic, sleep
from typing import Any

RESTING_POLLS = {"7": 2, "232": 3, "281": 3}
"""The system calls of x86_64 that wait with a timeout in milliseconds, and which argument it is.

On other machines timers do not count, and `wait` is the agent's means to see deferred work.
"""
WORK_TIMER_MS = 350
"""A thread that waits with a shorter timeout has work to do soon: the next frame, a deferred update, a dialog's check.

Tooltips come after 500 ms; they do not count as effects of an action.
"""
KILL_TIMEOUT_S = 3.0
MAX_FILE_BYTES = 4096
TERMINAL_FIELD = 4
"""The controlling terminal among the fields of ``stat`` after the name."""
RLIMITS = 16
"""Limits of a process in Linux."""
IDLE_STATES = "SZXTt"
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
PROGRAMS = frozenset(
    f"/usr/{path}"
    for path in (
        *("bin/Xvfb", "bin/dbus-daemon", "bin/galculator", "bin/gnumeric", "bin/lxterminal", "bin/mousepad"),
        *("bin/openbox", "bin/pcmanfm", "bin/ristretto", "bin/zenity", "libexec/at-spi2-registryd"),
        f"lib/{os.uname().machine}-linux-gnu/xfce4/xfconf/xfconfd",
    )
)
"""The desktop's programs; none of them executes programs that the agent writes."""


def all_processes() -> list[int]:
    """Return the pids of this user, without this process."""
    own, user = os.getpid(), os.getuid()
    pids = []
    # The last ones first: they are the applications, and the first process at work ends a look.
    for name in reversed(os.listdir("/proc")):
        if name.isdigit() and int(name) != own:
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{name}").st_uid == user:
                    # The agent of the sandbox has the rights of this user for a moment, but is out of its reach.
                    os.kill(int(name), 0)
                    pids.append(int(name))
    return pids


def activity(pids: Iterable[int], untimed: frozenset[int]) -> dict[str, str] | None:
    """Return how often each thread has run, if every thread rests now; None if one works or has a short timer.

    The timers of the processes ``untimed`` do not count. The count is read before the state: with an equal count later,
    a thread slept from the moment of the first state to that of the second count.
    """
    counts: dict[str, str] = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                folder = f"/proc/{pid}/task/{thread}/"
                with contextlib.suppress(OSError):
                    counts[thread] = _read(folder + "schedstat").rpartition(" ")[2]
                    if not rests(folder, pid not in untimed):
                        return None
    return counts


def runs_other(pids: Iterable[int]) -> bool:
    """Return whether a process runs another program than those of the desktop and its applications."""
    for pid in pids:
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/exe") not in PROGRAMS:
                return True
    return False


def has_terminal(pids: Iterable[int]) -> bool:
    """Return whether a process runs in a terminal."""
    for pid in pids:
        with contextlib.suppress(OSError):
            if _read(f"/proc/{pid}/stat").rpartition(")")[2].split()[TERMINAL_FIELD] != "0":
                return True
    return False


def cpu_of_runnable(pids: Iterable[int]) -> float | None:
    """Return the processor time of all threads in seconds; None if no thread is ready to run."""
    nanoseconds, runnable = 0, False
    for pid in pids:
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                folder = f"/proc/{pid}/task/{thread}/"
                with contextlib.suppress(OSError):
                    nanoseconds += int(_read(folder + "schedstat").split()[0])
                    runnable |= _state(folder) not in IDLE_STATES
    return nanoseconds / 1e9 if runnable else None


def rests(folder: str, timed: bool) -> bool:
    """Return whether the thread of a folder of /proc sleeps until an event or, if ``timed``, for a long time."""
    if _state(folder) not in IDLE_STATES:
        return False
    if not timed:
        return True
    try:
        fields = _read(folder + "syscall").split()
    except OSError:
        return True
    argument = RESTING_POLLS.get(fields[0]) if fields else None
    if argument is None:
        return bool(fields) and fields[0] != "running"
    timeout = int(fields[1 + argument], 16) & 0xFFFFFFFF
    return timeout >= WORK_TIMER_MS


def own_limits() -> tuple[Any, ...]:
    """Return what other processes of the same user can change of this one, and children inherit."""
    limits = tuple(resource.getrlimit(number) for number in range(RLIMITS))
    return limits, os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0)


def kill_all(keep: frozenset[int]) -> list[str]:
    """Kill every process of this user but ``keep`` and this one; return the names of those that do not end."""
    until = monotonic() + KILL_TIMEOUT_S
    while doomed := [pid for pid in all_processes() if pid not in keep and not _is_zombie(pid)]:
        if monotonic() > until:
            return [f"process {_name(pid)}" for pid in doomed]
        # Stop all before killing any: a stopped fork bomb cannot replace the processes that are killed.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in doomed:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
        sleep(0.001)
    return []


def _state(folder: str) -> str:
    return _read(folder + "stat").rpartition(")")[2].split(None, 1)[0]


def _is_zombie(pid: int) -> bool:
    try:
        return _state(f"/proc/{pid}/") in "ZX"
    except OSError:
        return True


def _name(pid: int) -> str:
    try:
        return _read(f"/proc/{pid}/comm").strip()
    except OSError:
        return str(pid)


def _read(path: str) -> str:
    """Return the start of a file of /proc. A process gives itself any bytes as a name."""
    # A text file of Python costs four times as much.
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, MAX_FILE_BYTES).decode("latin-1")
    finally:
        os.close(file)


def wait_for_rest(
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
