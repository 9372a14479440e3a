"""The program ``turnwise``. It installs the signal handlers of a run before any slow import."""

import sys

from ..trainer.shutdown import SHUTDOWN

RECORDED_COMMANDS = (["train"], ["eval"], ["runs", "fork"], ["trajectories", "branch"])
"""Commands that train or evaluate: they record the signal that ended them."""
INTERRUPTED = 130
"""The exit code after Ctrl-C."""


def main() -> None:
    """Run the command line. A signal ends a recorded command with 128 plus its number.

    Ctrl-C ends any other command with 130, also while its modules are imported.
    """
    if any(sys.argv[1 : 1 + len(command)] == command for command in RECORDED_COMMANDS):
        SHUTDOWN.install()
    try:
        from .command_line import main as run

        run()
    except BaseException as error:
        if not isinstance(error, Exception):
            SHUTDOWN.exit_if_signaled()
        if isinstance(error, KeyboardInterrupt):
            sys.exit(INTERRUPTED)
        raise
    SHUTDOWN.exit_if_signaled()


if __name__ == "__main__":
    main()
