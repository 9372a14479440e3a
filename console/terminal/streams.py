"""The standard streams of this process: always open, and without an encoding error.

A closed descriptor 0, 1 or 2 would be given to the next file that is opened, such as the database, and printed text
would be written into it.
"""

import contextlib
import io
import os
import sys

from ...base.process.output import stdout
from ...errors import TurnwiseError

_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def prepare_streams() -> None:
    """Open closed standard streams on ``/dev/null``, and replace characters that their encoding lacks.

    A character that stdout cannot encode becomes ``?``; bytes of stdin that cannot be decoded become U+FFFD.
    """
    for number, (name, mode) in enumerate(_STREAMS):
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
            if null != number:
                os.dup2(null, number)
                os.close(null)
        stream = getattr(sys, name)
        if stream is None or stream.closed:
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", errors="replace", closefd=False))
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace" if name == "stderr" else "replace")


def flush_stdout() -> None:
    """Write what the command's stdout still holds.

    Raises:
        BrokenPipeError: the reader of stdout is gone.
        TurnwiseError: stdout cannot be written, for example because a disk is full.
    """
    try:
        stdout().flush()
        if sys.stdout is not None and not sys.stdout.closed:  # code of an environment may remove it
            sys.stdout.flush()
    except BrokenPipeError:
        discard_stdout()
        raise
    except OSError as error:
        discard_stdout()
        raise TurnwiseError(f"stdout cannot be written: {error.strerror}; the output is incomplete") from error


def discard_stdout() -> None:
    """Send the rest of stdout to ``/dev/null``, so that the end of the interpreter does not write it again."""
    for stream in (stdout(), sys.stdout):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            number = stream.fileno()
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, number)
            os.close(null)
