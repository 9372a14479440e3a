"""The end of a command by an exception: one line on stderr, and an exit code."""

import contextlib
import traceback
from typing import Any

from ..base.process.output import stderr
from ..errors import FAILED, REFUSED, TurnwiseError
from .terminal.sanitize import indented, one_line, sanitize
from .terminal.streams import discard_stdout

UNEXPECTED = 3
"""Exit code of an error that is a bug."""
OPTIONAL_PACKAGES = frozenset(
    {"matplotlib", "psutil", "ray", "safetensors", "tokenizers", "torch", "transformers", "vllm"}
)
"""Packages that training needs and the core does not. If one is missing, the user installs it."""
MAX_CHARS = 600
"""Limit on the message of a wrong use of the command line, in characters."""


def report(error: Exception) -> int:
    """Print why a command ended and return its exit code. Only the message of a ``TurnwiseError`` may have lines.

    An unexpected error is a bug, and prints its traceback. A closed pipe behind stdout ends the command silently.
    """
    if isinstance(error, BrokenPipeError):
        discard_stdout()
        return FAILED
    if isinstance(error, TurnwiseError):
        return _printed(indented(str(error)), error.exit_code)
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in OPTIONAL_PACKAGES:
        return _printed(
            f"this command needs {error.name}, which is not installed: run `make install` "
            'or `pip install "turnwise[cpu]"` (`[gpu]` on a machine with a GPU)',
            REFUSED,
        )
    if isinstance(error, UnicodeEncodeError):
        return _printed(f"a given name or text has bytes that are not UTF-8: {error.object[:80]!a}", REFUSED)
    if isinstance(error, OSError) and error.strerror:
        discard_stdout()  # it may be the one that cannot be written
        place = ", ".join(f"`{one_line(str(name), None)}`" for name in (error.filename, error.filename2) if name)
        return _printed(f"{place or 'a file, a folder or stdout'}: {error.strerror}", REFUSED)
    return _printed(f"unexpected error:\n{sanitize(''.join(traceback.format_exception(error)))}", UNEXPECTED)


def report_usage(error: Any) -> int:
    """Print why the arguments fit no command, and return the exit code. A group without a command prints its help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        return _printed(error.ctx.get_help(), REFUSED, prefix="")
    path = error.ctx.command_path if error.ctx else "turnwise"
    message = one_line(error.format_message().rstrip(".\n"), MAX_CHARS)
    return _printed(f"{message}; see `{one_line(path)} --help`", REFUSED)


def _printed(message: str, code: int, *, prefix: str = "turnwise: ") -> int:
    with contextlib.suppress(OSError, ValueError):
        stderr().write(f"{prefix}{message}\n")
        stderr().flush()
    return code
