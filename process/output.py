"""Output of a command, apart from the output of the code that it runs.

Environments, plugins and libraries print: by ``print``, from C, or in programs that inherit the file descriptors. After
``claim_output``, all of that goes to stderr, and only ``stdout()`` reaches the command's stdout. A stream that such
code closes or replaces changes nothing of the two, nor does a file descriptor 0, 1 or 2 that it closes.

Code that closes all descriptors closes those of the store and of the event loop too. The next file takes the number,
and its content would be overwritten: ``check_descriptors`` ends the command.
"""

import contextlib
import fcntl
import os
import sys
import threading
from typing import TextIO

_claimed: tuple[TextIO, TextIO] | None = None
"""The streams of the command."""
_guard: tuple[int, tuple[int, int]] | None = None
"""A descriptor of a low number that nothing uses, and its file: code that closes all descriptors closes it."""
COPIES_FROM = 500
"""Least number of the descriptors of the command's streams: ``os.closerange(3, 100)`` leaves them open."""
closed = 0
"""How often code of an environment has closed descriptor 0, 1 or 2."""
LOST = (
    "code of an environment closed files of this process that it had not opened (`os.closerange`, `os.close`); "
    "`turnwise envs check` may find it: close files in a process of the environment"
)
_ending = threading.Lock()
"""Held by the thread that ends the process: it alone prints."""
EXIT_LOST = 1
"""Exit code of a command that had begun and failed."""


def claim_output() -> None:
    """Keep stdout and stderr for the command, and send what other code prints to stderr. Later calls do nothing."""
    global _claimed
    if _claimed is not None or sys.stdout is None or sys.stderr is None:
        return
    try:
        sys.stdout.flush()
        _claimed = _copy(sys.stdout), _copy(sys.stderr)
        guard_descriptors()
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    except (OSError, ValueError):  # a closed stream, or one without a file descriptor, as in a notebook
        _claimed = None


def guard_descriptors() -> None:
    """From now on, guard the descriptors of this process, which turnwise owns. Later calls do nothing."""
    global _guard
    if _guard is not None:
        return
    with contextlib.suppress(OSError):
        copy = os.dup(2)
        _guard = copy, _file(copy)


def check_descriptors() -> None:
    """After a call of other code, open a closed descriptor 0, 1 or 2 again; in a process without guard, do nothing.

    If the other descriptors are closed, end the process with one line on stderr.
    """
    global closed
    if _guard is None:
        return
    if not _is_guarded(*_guard):
        _ending.acquire()
        for descriptor in (*(stream.fileno() for stream in (_claimed or ())[1:]), 2):
            with contextlib.suppress(OSError):
                os.write(descriptor, f"turnwise: {LOST}\n".encode())
                break
        os._exit(EXIT_LOST)
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            closed += 1
            if number:
                os.dup2(_guard[0], number)
            else:
                null = os.open(os.devnull, os.O_RDONLY)  # the lowest free number, which is 0
                os.set_inheritable(null, True)


def _is_guarded(descriptor: int, file: tuple[int, int]) -> bool:
    try:
        return _file(descriptor) == file
    except OSError:
        return False


def _file(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


def stdout() -> TextIO:
    """Return the stream for the results of a command."""
    return sys.stdout if _claimed is None else _claimed[0]


def stderr() -> TextIO:
    """Return the stream for the messages of a command."""
    return sys.stderr if _claimed is None else _claimed[1]


def discard_output() -> None:
    """Discard all further output of this process."""
    silent = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2, *(stream.fileno() for stream in _claimed or ())):
        os.dup2(silent, descriptor)


def _copy(stream: TextIO) -> TextIO:
    """Return a stream of the same file that programs do not inherit."""
    line_buffering = bool(getattr(stream, "line_buffering", False))
    buffering = 1 if line_buffering else -1
    try:
        copy = fcntl.fcntl(stream.fileno(), fcntl.F_DUPFD_CLOEXEC, COPIES_FROM)
    except OSError:  # above the limit on open files
        copy = os.dup(stream.fileno())
    return os.fdopen(copy, "w", buffering, encoding=stream.encoding, errors=stream.errors)
