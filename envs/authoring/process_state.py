"""State of the process that every environment of a run shares, as values that can be compared, and what is left in it.

To find another kind of change, add its reader to ``settings``.
"""

import asyncio
import gc
import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path

from ...base.process.children import descendants
from ..runner.call_thread import CallThread

SETTLE_TIMEOUT_S = 0.5
"""Longest wait for threads and files to end that are about to."""
TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
LIMITS = [name for name in dir(resource) if name.startswith("RLIMIT_")]
State = dict[str, object]
"""A value per kind of state."""


def settings() -> State:
    """Return the settings of the process that no code of an environment may change, not even its import."""
    return {
        "the working directory": Path("/proc/self/cwd").readlink(),
        "the handlers of signals": [signal.getsignal(number) for number in sorted(signal.valid_signals())],
        "timers (`signal.setitimer`)": [bool(signal.getitimer(timer)[0]) for timer in TIMERS],
        "limits (`resource.setrlimit`)": [resource.getrlimit(getattr(resource, name)) for name in LIMITS],
        "`sys.stdin`, `sys.stdout` or `sys.stderr`": [sys.stdin, sys.stdout, sys.stderr],
        "file descriptor 0, 1 or 2": [Path(f"/proc/self/fd/{number}").resolve() for number in range(3)],
    }


def variables() -> State:
    """Return the environment variables, which the import of a library may set."""
    return {f"the environment variable `{name}`": value for name, value in os.environ.items()}


def changes(before: State) -> list[str]:
    """Return the kinds of state that differ from ``before``."""
    now = settings() | variables()
    return [kind for kind in before | now if before.get(kind) != now.get(kind)]


def left_running() -> set[str]:
    """Return the child processes and non-daemon threads of this process that are alive, as text."""
    threads = {f"thread `{thread.name}`" for thread in _threads() if not thread.daemon}
    return {f"process {pid}" for pid in descendants()} | threads


def counts() -> dict[str, int]:
    """Return the numbers of threads, open files and processes, which must not grow from episode to episode."""
    gc.collect()
    files = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names alone
    return {"threads": len(_threads()), "open files": files, "processes": len(descendants())}


async def growth(before: dict[str, int], at_least: int) -> dict[str, int]:
    """Return the counts that grew by ``at_least``, with their growth, once they no longer shrink."""
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while True:
        grown = {kind: count - before[kind] for kind, count in counts().items()}
        found = {kind: count for kind, count in grown.items() if count >= at_least}
        if not found or time.monotonic() > deadline:
            return found
        await asyncio.sleep(0.1)


def _threads() -> list[threading.Thread]:
    """Return the threads of this process, without the main thread and those that call environments."""
    return [one for one in threading.enumerate() if not (one is threading.main_thread() or isinstance(one, CallThread))]
