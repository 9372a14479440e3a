"""The program ``turnwise``. It installs the signal handlers of a run before any slow import."""

import atexit
import contextlib
import os
import sys
from typing import NoReturn

from ..base.process.children import descendants, end_descendants, end_pools, isolate_signals
from ..base.process.output import stderr, stdout
from ..base.process.start import record_start
from ..errors import TurnwiseError
from ..trainer.shutdown import SHUTDOWN
from .terminal.streams import prepare_streams

RECORDED_COMMANDS = (["train"], ["eval"], ["runs", "fork"], ["trajectories", "branch"])
"""Commands that train or evaluate: they record the signal that ended them."""
INTERRUPTED = 130
"""The exit code after Ctrl-C."""


def main() -> None:
    """Run the command line. A signal ends a recorded command with 128 plus its number.

    Ctrl-C ends any other command with 130, also while its modules are imported.
    """
    prepare_streams()
    isolate_signals()
    if any(sys.argv[1 : 1 + len(command)] == command for command in RECORDED_COMMANDS):
        SHUTDOWN.install()
    try:
        _record_start()
        from .command_line import main as run

        run()
    except BaseException as error:
        if not isinstance(error, Exception):
            SHUTDOWN.exit_if_signaled()
        if isinstance(error, KeyboardInterrupt):
            _exit(INTERRUPTED)
        if isinstance(error, SystemExit):
            _exit(error.code)
        if isinstance(error, Exception):  # the folder is gone, or an import failed
            from .failure import report

            _exit(report(error))
        raise
    SHUTDOWN.exit_if_signaled()
    _exit(0)


def _record_start() -> None:
    """Record the folder of the command. Raises TurnwiseError if it was deleted."""
    try:
        record_start()
    except FileNotFoundError as error:
        raise TurnwiseError(
            "the current folder was deleted: change to another one, and run the command again"
        ) from error


def _exit(code: str | int | None) -> NoReturn:
    """End the process, with the processes and threads that environments left: the interpreter would wait for them.

    The interpreter does not free its modules either, which takes a second once torch is imported.
    """
    end_pools()
    has_descendants = bool(descendants())
    atexit._run_exitfuncs()  # closes the sandboxes of this process, and Ray
    if has_descendants:
        end_descendants()
    for stream in (stdout(), stderr(), sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    main()
