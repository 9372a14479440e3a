"""Output of a command, apart from the output of the code that it runs.

Environments, plugins and libraries print: by ``print``, from C, or in programs that inherit the file descriptors. After
``claim_output``, all of that goes to stderr, and only ``stdout()`` reaches the command's stdout. A stream that such
code replaces changes nothing of the two.
"""

import os
import sys
from typing import TextIO

_claimed: tuple[TextIO, TextIO] | None = None
"""The streams of the command."""


def claim_output() -> None:
    """Keep stdout and stderr for the command, and send what other code prints to stderr. Later calls do nothing."""
    global _claimed
    if _claimed is not None or sys.stdout is None or sys.stderr is None:
        return
    try:
        sys.stdout.flush()
        _claimed = _copy(sys.stdout), _copy(sys.stderr)
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    except (OSError, ValueError):  # a closed stream, or one without a file descriptor, as in a notebook
        _claimed = None


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
    return os.fdopen(os.dup(stream.fileno()), "w", buffering, encoding=stream.encoding, errors=stream.errors)
