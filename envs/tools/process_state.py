"""State of the process that every environment of a run shares, as values that can be compared.

To find another kind of change, add it to ``process_state``.
"""

import asyncio
import builtins
import ctypes
import decimal
import gc
import locale
import logging
import multiprocessing
import os
import random
import resource
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...process.children import descendants

SIGACTION_BYTES = 152
"""Size of ``struct sigaction`` of the C library; its first field is the handler."""
POINTER_BYTES = 8
LIMITS = [name for name in dir(resource) if name.startswith("RLIMIT_")]
FUNCTIONS = {
    "builtins": (builtins.open, builtins.print, builtins.input, builtins.__import__),
    "time": (time.time, time.monotonic, time.sleep),
    "random": (random.random, random.seed),
    "os": (os.fork, os.getcwd, os.environ.get),
}
"""Functions of the standard library as they were when this module was imported."""
State = Mapping[str, Any]
LIBRARY_STATE = (
    "environment variables",
    "`sys.path`",
    "filters of warnings for all modules",
    "the configuration of logging",
    "`np.set_printoptions`",
)
"""Kinds of state that the import of a library may change."""


def process_state() -> State:
    """Return each kind of state with its value, as the calling thread sees it."""
    umask = os.umask(0)
    os.umask(umask)
    state = {
        "the working directory": _folder(),
        "the handlers of signals": _handlers(),
        "the signal mask of its thread": frozenset(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        "timers (`signal.setitimer`, `alarm`)": tuple(bool(signal.getitimer(one)[0]) for one in (0, 1, 2)),
        "`sys.stdin`, `sys.stdout` or `sys.stderr`": _streams(),
        "file descriptor 0, 1 or 2": tuple(map(_file, (0, 1, 2))),
        "the umask": umask,
        "limits (`resource.setrlimit`)": tuple(resource.getrlimit(getattr(resource, name)) for name in LIMITS),
        "the priority of the process": os.getpriority(os.PRIO_PROCESS, 0),
        "environment variables": dict(os.environ),
        "`sys.path`": tuple(sys.path),
        "filters of warnings for all modules": tuple(one for one in warnings.filters if _is_general(one)),
        "the locale": locale.setlocale(locale.LC_ALL),
        "the time zone": time.tzname,
        "the start method of `multiprocessing`": multiprocessing.get_start_method(allow_none=True),
        "the policy of event loops": _policy(),
        "`socket.setdefaulttimeout`": socket.getdefaulttimeout(),
        "`sys.setrecursionlimit`": sys.getrecursionlimit(),
        "`sys.setswitchinterval`": sys.getswitchinterval(),
        "`gc`": (gc.isenabled(), gc.get_threshold()),
        "hooks of exceptions": (sys.excepthook, threading.excepthook, sys.unraisablehook),
        "the configuration of logging": _logging(),
        "functions of the standard library": _functions(),
        "the decimal context": repr(decimal.getcontext().copy()).partition("flags=")[0],
        "`np.seterr`": tuple(np.geterr().items()),
        "`np.set_printoptions`": repr(np.get_printoptions()),
    }
    if torch := sys.modules.get("torch"):
        flags = torch.get_default_dtype(), torch.is_grad_enabled(), torch.are_deterministic_algorithms_enabled()
        state["settings of torch"] = (torch.get_num_threads(), *flags)
    return state


def left_running() -> set[str]:
    """Return the processes and non-daemon threads of this process that are alive, as text."""
    threads = [one for one in threading.enumerate() if not one.daemon and one is not threading.main_thread()]
    zombies = [f"process {pid} (a zombie: nothing waited for it)" for pid in _zombies()]
    return {*zombies, *(f"process {pid}" for pid in descendants()), *(f"thread `{one.name}`" for one in threads)}


def changes(before: State, after: State) -> list[str]:
    """Return the kinds of state that differ, as text; of variables with their names."""
    found = []
    for kind, value in after.items():
        if kind not in before or before[kind] == value:
            continue
        detail = ""
        if isinstance(value, dict):
            names = sorted(name for name in {*before[kind], *value} if before[kind].get(name) != value.get(name))
            detail = f" ({', '.join(f'`{name}`' for name in names[:5])})"
        elif isinstance(value, str | int):
            detail = f" (from `{before[kind]}` to `{value}`)"
        found.append(kind + detail)
    return found


def _is_general(entry: tuple[Any, ...]) -> bool:
    """Return whether an entry of ``warnings.filters`` concerns the warnings of other modules than one library."""
    _, message, category, module, _ = entry
    return not (message or module) and category.__module__ == "builtins"


def _folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - a text for the message
    except OSError:
        return "a folder that was deleted"


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
    streams = sys.stdin, sys.stdout, sys.stderr
    return tuple((id(one), getattr(one, "closed", True)) for one in streams)


def _file(descriptor: int) -> tuple[int, int] | None:
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _policy() -> type:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return type(asyncio.get_event_loop_policy())


def _logging() -> tuple[object, ...]:
    root = logging.getLogger()
    ours = logging.getLogger("turnwise")
    return root.level, tuple(root.handlers), root.manager.disable, ours.level, ours.disabled, tuple(ours.handlers)


def _functions() -> tuple[object, ...]:
    now = {
        "builtins": (builtins.open, builtins.print, builtins.input, builtins.__import__),
        "time": (time.time, time.monotonic, time.sleep),
        "random": (random.random, random.seed),
        "os": (os.fork, os.getcwd, os.environ.get),
    }
    return tuple(name for name in FUNCTIONS if now[name] != FUNCTIONS[name])


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
