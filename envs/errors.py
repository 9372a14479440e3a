"""What can go wrong with an environment, as seen by those who run it.

    EnvError
    ├── UnknownEnvironment    the id names nothing; the message names the nearest one
    ├── EnvironmentFailed     the environment raised; the message ends with its traceback's last lines
    ├── EnvironmentBroken     it answered, but not as its contract says (type, NaN, size)
    └── EnvTimeout            it did not answer before its deadline

Every one is a failure of the world, never a reward: the loop turns it into a trajectory's status and text.
"""

import traceback

from ..errors import TurnwiseError

MAX_ERROR_CHARS = 2000
TRACEBACK_FRAMES = 3


class EnvError(TurnwiseError):
    """Base of all that an environment may do to its runner."""


class UnknownEnvironment(EnvError):
    """The id names no registered environment."""


class EnvironmentFailed(EnvError):
    """The environment raised."""


class EnvironmentBroken(EnvError):
    """The environment broke its contract: wrong type, a reward that is not finite, an observation too large."""


class EnvTimeout(EnvError):
    """A call overran its deadline; the thread that runs it was given up."""


def told(what: str, error: BaseException) -> EnvError:
    """Whatever an environment raised while doing ``what``, as one of this file's, with the last lines of its traceback;
    what one of our own errors says is enough.
    """
    if isinstance(error, EnvError):
        return type(error)(f"{what}: {error}")
    if isinstance(error, TurnwiseError):
        failed = EnvironmentFailed(f"{what}: {error}")
    else:
        lines = traceback.format_exception(error, limit=-TRACEBACK_FRAMES, chain=False)
        failed = EnvironmentFailed(f"{what} raised\n{''.join(lines)[-MAX_ERROR_CHARS:].rstrip()}")
    failed.__cause__ = error
    return failed
