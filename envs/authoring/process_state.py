"""State of the process that every environment of a run shares, as values that can be compared, and what is left in it.

To find another kind of change, add its reader to ``OBSERVED``.
"""

import asyncio
import contextlib
import csv
import ctypes
import decimal
import gc
import locale
import logging
import multiprocessing
import os
import resource
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...process import limits, output, timers
from ...process.children import descendants
from ..runner.call_thread import CallThread

SIGACTION_BYTES = 152
"""Size of ``struct sigaction`` of the C library; its first field is the handler."""
POINTER_BYTES = 8
PR_SET_CHILD_SUBREAPER = 36
ZOMBIE = "a zombie"
SETTLE_TIMEOUT_S = 0.5
"""Longest wait for threads and files to end that are about to."""
LIMITS = [name for name in dir(resource) if name.startswith("RLIMIT_")]
SHARED = (sys.stdlib_module_names | {"gymnasium", "numpy"}) - {"inspect", "logging", "sys"}
"""Packages whose functions every environment may use; without those that torch and Ray patch when they are imported."""
State = Mapping[str, Any]


def process_state() -> State:
    """Return each kind of state with its value, as the calling thread sees it."""
    state = {kind: read() for kind, read in OBSERVED.items()}
    if torch := sys.modules.get("torch"):
        flags = torch.get_default_dtype(), torch.is_grad_enabled(), torch.are_deterministic_algorithms_enabled()
        state["settings of torch"] = (torch.get_num_threads(), torch.get_float32_matmul_precision(), *flags)
    return state


def changes(before: State, after: State) -> list[str]:
    """Return the kinds of state that differ, as text; of variables and functions with their names.

    A name that ``before`` lacks counts only as an environment variable: modules fill themselves when they are used.
    """
    found = []
    for kind, value in after.items():
        if kind not in before or before[kind] == value:
            continue
        detail = ""
        if isinstance(value, dict):
            missing = object()
            known = {*before[kind], *value} if kind == VARIABLES else before[kind].keys() & value.keys()
            names = sorted(name for name in known if before[kind].get(name, missing) != value.get(name, missing))
            if not names:
                continue
            detail = f" ({', '.join(f'`{name}`' for name in names[:5])})"
        elif isinstance(value, str | int):
            detail = f" (from `{before[kind]}` to `{value}`)"
        found.append(kind + detail)
    return found


def _folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - a text for the message
    except OSError:
        return "a folder that was deleted"


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask


def _limits() -> tuple[object, ...]:
    """Return each limit, and how often one was lowered and raised again."""
    return *(resource.getrlimit(getattr(resource, name)) for name in LIMITS), limits.lowered.total()


def _handlers() -> tuple[object, ...]:
    """Return the handler of each signal, of Python and of the C library, which C code sets behind Python's back."""
    library = ctypes.CDLL(None)
    found: list[object] = []
    for number in sorted(signal.valid_signals()):
        action = ctypes.create_string_buffer(SIGACTION_BYTES)
        library.sigaction(int(number), None, action)
        found += [signal.getsignal(number), action.raw[:POINTER_BYTES]]
    return tuple(found)


def _streams() -> tuple[object, ...]:
    """Return each stream, with the settings that ``reconfigure`` changes."""
    names = "closed", "encoding", "errors", "line_buffering"
    streams = sys.stdin, sys.stdout, sys.stderr
    return tuple((id(stream), *(getattr(stream, name, None) for name in names)) for stream in streams)


def _file(descriptor: int) -> tuple[object, ...] | None:
    try:
        found = os.fstat(descriptor)
        return found.st_dev, found.st_ino, os.get_blocking(descriptor)
    except OSError:
        return None


def _policy() -> type:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return type(asyncio.get_event_loop_policy())


def _is_general(entry: tuple[Any, ...]) -> bool:
    """Return whether an entry of ``warnings.filters`` concerns the warnings of other modules than one library."""
    _, message, category, module, _ = entry
    return not (message or module) and category.__module__ == "builtins"


def _logging() -> tuple[object, ...]:
    root = logging.getLogger()
    ours = logging.getLogger("turnwise")
    factories = logging.getLoggerClass(), logging.getLogRecordFactory()
    handlers = [handler for handler in ours.handlers if not isinstance(handler, logging.NullHandler)]
    return root.level, tuple(root.handlers), root.manager.disable, ours.level, ours.disabled, *handlers, *factories


def _functions() -> dict[str, object]:
    """Return the functions and classes of packages that all environments use, and the methods of these classes."""
    found: dict[str, object] = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] not in SHARED or not hasattr(module, "__dict__"):
            continue
        for key, value in list(vars(module).items()):
            if callable(value):
                found[f"{name}.{key}"] = value
                if isinstance(value, type) and value.__module__ == name:
                    methods = {one: each for one, each in list(vars(value).items()) if callable(each)}
                    found |= {f"{name}.{key}.{one}": each for one, each in methods.items()}
    return found


VARIABLES = "environment variables"
LIBRARY_STATE: dict[str, Callable[[], Any]] = {
    VARIABLES: lambda: dict(os.environ),
    "`sys.path`": lambda: tuple(sys.path),
    "importers (`sys.meta_path`, `sys.path_hooks`)": lambda: (*sys.meta_path, *sys.path_hooks),
    "filters of warnings for all modules": lambda: tuple(one for one in warnings.filters if _is_general(one)),
    "the configuration of logging": _logging,
    "`np.set_printoptions`": lambda: repr(np.get_printoptions()),
}
"""Kinds of state that the import of a library may change, each with the function that reads it."""
OBSERVED: dict[str, Callable[[], Any]] = {
    "the working directory": _folder,
    "the handlers of signals": _handlers,
    "the signal mask of its thread": lambda: frozenset(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    "timers (`signal.setitimer`, `alarm`)": lambda: (
        *(bool(signal.getitimer(timer)[0]) for timer in timers.TIMERS.values()),
        timers.expired.total(),
    ),
    "`sys.stdin`, `sys.stdout` or `sys.stderr`": _streams,
    "file descriptor 0, 1 or 2": lambda: (*map(_file, (0, 1, 2)), output.closed),
    "the umask": _umask,
    "limits (`resource.setrlimit`)": _limits,
    "the priority of the process": lambda: os.getpriority(os.PRIO_PROCESS, 0),
    "the CPUs of the process (`os.sched_setaffinity`)": lambda: [
        os.sched_getaffinity(each) for each in (0, os.getpid())
    ],
    "the group or session of the process": lambda: (os.getpgrp(), os.getsid(0)),
    "the locale": lambda: locale.setlocale(locale.LC_ALL),
    "the time zone": lambda: time.tzname,
    "the start method of `multiprocessing`": lambda: (
        multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]
    ),
    "the policy of event loops": _policy,
    "`socket.setdefaulttimeout`": socket.getdefaulttimeout,
    "`sys.setrecursionlimit`": sys.getrecursionlimit,
    "`sys.setswitchinterval`": sys.getswitchinterval,
    "`sys.set_int_max_str_digits`": sys.get_int_max_str_digits,
    "`csv.field_size_limit`": csv.field_size_limit,
    "`gc`": lambda: (gc.isenabled(), gc.get_threshold()),
    "hooks of exceptions": lambda: (sys.excepthook, threading.excepthook, sys.unraisablehook),
    "hooks of threads (`threading.settrace`, `setprofile`)": lambda: (threading.gettrace(), threading.getprofile()),
    "functions of the standard library, NumPy or Gymnasium": _functions,
    "the decimal context": lambda: repr(decimal.getcontext().copy()).partition("flags=")[0],
    "`np.seterr`": lambda: (np.geterrcall(), *np.geterr().items()),
    **LIBRARY_STATE,
}
"""All kinds of state."""


def left_running() -> set[str]:
    """Return the processes and non-daemon threads of this process that are alive, and its zombies, as text."""
    zombies = [f"process {pid} ({ZOMBIE}: nothing waited for it)" for pid in _zombies()]
    threads = [f"thread `{thread.name}`" for thread in _threads() if not thread.daemon]
    return {*zombies, *(f"process {pid}" for pid in descendants()), *threads}


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
