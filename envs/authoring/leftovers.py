"""Processes, threads and open files that environments leave behind."""

import asyncio
import contextlib
import ctypes
import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

from ...process.children import descendants
from ..runner.call_thread import CallThread

PR_SET_CHILD_SUBREAPER = 36
ZOMBIE = "a zombie"
SETTLE_TIMEOUT_S = 0.5
"""Longest wait for threads and files to end that are about to."""


def left_running() -> set[str]:
    """Return the processes and non-daemon threads of this process that are alive, and its zombies, as text."""
    zombies = [f"process {pid} ({ZOMBIE}: nothing waited for it)" for pid in _zombies()]
    threads = [f"thread `{one.name}`" for one in _threads() if not one.daemon]
    return {*zombies, *(f"process {pid}" for pid in descendants()), *threads}


def counts() -> dict[str, int]:
    """Return the numbers of threads, open files and processes, which must not grow from episode to episode."""
    gc.collect()
    files = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names alone
    return {"threads": len(_threads()), "open files": files, "processes": len(descendants())}


async def growth(before: dict[str, int], at_least: int) -> dict[str, int]:
    """Return the counts that grew by ``at_least``, with their growth, once they no longer shrink."""
    deadline = monotonic() + SETTLE_TIMEOUT_S
    while True:
        grown = {kind: count - before[kind] for kind, count in counts().items()}
        found = {kind: count for kind, count in grown.items() if count >= at_least}
        if not found or monotonic() > deadline:
            return found
        await asyncio.sleep(0.1)


@contextlib.contextmanager
def detached_processes_kept() -> Iterator[None]:
    """Inside the context, a process whose parent ended becomes a child of this one, instead of the system's first."""
    library = ctypes.CDLL(None)
    library.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        library.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _threads() -> list[threading.Thread]:
    """Return the threads of this process, without the main thread and those that call environments."""
    return [one for one in threading.enumerate() if not (one is threading.main_thread() or isinstance(one, CallThread))]


def _zombies() -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text(errors="replace").rpartition(")")[2].split()[:2]
        except (OSError, ValueError):
            continue
        if state == "Z" and int(parent) == os.getpid():
            found.append(int(stat.parent.name))
    return found
