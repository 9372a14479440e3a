"""Child processes that code of an environment starts: they begin with default signals and end with the command.

A forked child inherits handlers, the wakeup pipe and the mask of its parent. With turnwise's own, a signal to the child
would stop the parent, and the child would ignore it.
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

END_TIMEOUT_S = 1.0
"""Seconds that the processes that a command leaves get to end, after SIGTERM and after SIGKILL."""
POLL_INTERVAL_S = 0.02

_forking = threading.local()
"""The mask of a thread before its fork, or None."""
_users = 0
"""Number of reasons why children of this process begin with default signals."""


def isolate_signals() -> None:
    """From now on, begin every forked child of this process, which turnwise owns, with default signals."""
    global _users
    _users += 1


@contextlib.contextmanager
def signals_isolated() -> Iterator[None]:
    """Inside the context, begin every forked child with default signals."""
    global _users
    _users += 1
    try:
        yield
    finally:
        _users -= 1


def _block_signals() -> None:
    """Block all signals of this thread for the time of a fork: the child gets none before it has reset its handlers."""
    _forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals()) if _users else None


def _restore_mask() -> None:
    if _forking.mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, _forking.mask)


def _reset_signals() -> None:
    """Undo handlers, wakeup pipe and mask in a child that was just forked; ignored signals stay ignored."""
    if _forking.mask is None:
        return
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if signal.getsignal(number) not in (signal.SIG_DFL, signal.SIG_IGN):
            interrupts = number == signal.SIGINT
            with contextlib.suppress(OSError, ValueError):
                signal.signal(number, signal.default_int_handler if interrupts else signal.SIG_DFL)
    if signal.SIGINT in signal.sigpending() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Raised in this hook, it would only be printed, and the child would go on. The child wrote nothing: what
        # stdout holds is output of the parent, which writes it.
        _print_error(KeyboardInterrupt())
        os._exit(1)
    unblock_signals()


os.register_at_fork(before=_block_signals, after_in_parent=_restore_mask, after_in_child=_reset_signals)


def unblock_signals() -> None:
    """Clear the signal mask of this thread: programs that it starts inherit the mask."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


@contextlib.contextmanager
def copies_end() -> Iterator[None]:
    """End a child that was forked inside the context where the context ends: it would go on as a copy of its parent."""
    process = os.getpid()
    try:
        yield
    except BaseException as error:
        if os.getpid() != process:
            _exit(error)
        raise
    if os.getpid() != process:
        _exit(None)


def _exit(error: BaseException | None) -> None:
    """End a forked child whose code returned, or raised ``error``, with the exit status of a Python program."""
    code = 0 if error is None else 1
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    elif error is not None:
        _print_error(error)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code & 0xFF)


def _print_error(error: BaseException) -> None:
    """Print an exception that ends this process to stderr, as Python does."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.excepthook(type(error), error, error.__traceback__)
        sys.stderr.flush()


def end_pools() -> None:
    """Kill the processes of ``multiprocessing``, which otherwise waits for them when the interpreter ends."""
    if "multiprocessing" in sys.modules:
        for child in sys.modules["multiprocessing"].active_children():
            child.kill()


def end_descendants() -> None:
    """End every process that this one, or one of its children, started: SIGTERM, then SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in descendants():
            with contextlib.suppress(OSError):
                os.kill(process, number)
        deadline = monotonic() + END_TIMEOUT_S
        while descendants() and monotonic() < deadline:
            sleep(POLL_INTERVAL_S)


def descendants(parent: int | None = None) -> list[int]:
    """Return the ids of the live children of a process, by default of this one, with all their children.

    Without the resource tracker of ``multiprocessing``, which ends by itself, after the others.
    """
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            state, above = stat.read_text(errors="replace").rpartition(")")[2].split()[:2]
            if state != "Z":
                children.setdefault(int(above), []).append(int(stat.parent.name))
    found: list[int] = []
    new = [os.getpid() if parent is None else parent]
    while new:
        new = [child for one in new for child in children.get(one, [])]
        found += new
    tracker = sys.modules.get("multiprocessing.resource_tracker")
    own = getattr(tracker, "_resource_tracker")._pid if tracker else None  # noqa: B009 - private, and no other way
    return [one for one in found if one != own]
