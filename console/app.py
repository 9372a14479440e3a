"""The program ``turnwise``: it takes over the signals of a run before it imports anything that takes time."""

import sys

from ..trainer.shutdown import SHUTDOWN

ENDS_IN_ORDER = frozenset({"train", "eval"})
"""Commands that record how a signal ended them; the others have nothing to record."""


def main() -> None:
    """Run the command line. A signal ends ``train`` and ``eval`` with 128 plus its number."""
    if sys.argv[1:2] and sys.argv[1] in ENDS_IN_ORDER:
        SHUTDOWN.install()
    from .command_line import main as run

    try:
        run()
    except BaseException as error:
        if not isinstance(error, Exception):
            SHUTDOWN.exit_if_signaled()
        raise
    SHUTDOWN.exit_if_signaled()


if __name__ == "__main__":
    main()
