"""Errors of an environment, as its runner sees them.

    EnvError
    ├── UnknownEnvironment    no environment has this id; the message names the nearest id
    ├── EnvironmentFailed     the environment raised; the message ends with its traceback's last lines
    ├── EnvironmentBroken     a return value breaks the contract (type, NaN, size)
    ├── EnvTimeout            a call exceeded its timeout
    │   └── ScoringTimeout    while it scored the episode
    └── NotTrainable          a run must not train on its rewards

Each is a failure, never a reward: the episode loop records it as the trajectory's status and error text.
"""

import traceback

from ..errors import TurnwiseError

MAX_ERROR_CHARS = 2000
"""Limit of the text of an environment in an error: its beginning and its end are kept."""
TRACEBACK_FRAMES = 3


class EnvError(TurnwiseError):
    """Base class of the errors of an environment."""


class UnknownEnvironment(EnvError):
    """The id names no registered environment."""


class EnvironmentFailed(EnvError):
    """The environment raised."""


class EnvironmentBroken(EnvError):
    """The environment broke its contract: wrong type, a reward that is not finite, an observation too large."""


class EnvTimeout(EnvError):
    """A call exceeded its timeout; its thread was abandoned."""


class ScoringTimeout(EnvTimeout):
    """Scoring exceeded its timeout, which is apart from that of the agent's action."""


class NotTrainable(EnvError):
    """A run must not train on the rewards of the environment: the agent can forge them."""


def wrap_error(call: str, error: BaseException) -> EnvError:
    """Return an exception that an environment raised during ``call`` as an ``EnvError``.

    The message ends with the last lines of the traceback, except for errors of turnwise, whose message is enough. It is
    cut to ``MAX_ERROR_CHARS`` after ``call``, since the environment chose it and the store keeps it.
    """
    failed: EnvError
    if isinstance(error, EnvError):
        failed = type(error)(f"{call}: {_cut(str(error))}")
    elif isinstance(error, TurnwiseError):
        failed = EnvironmentFailed(f"{call}: {_cut(str(error))}")
    else:
        lines = traceback.format_exception(error, limit=-TRACEBACK_FRAMES, chain=False)
        failed = EnvironmentFailed(f"{call} raised\n{''.join(lines)[-MAX_ERROR_CHARS:].rstrip()}")
    failed.__cause__ = error
    return failed


def _cut(text: str) -> str:
    if len(text) <= MAX_ERROR_CHARS:
        return text
    mark = f" … ({len(text)} characters) … "
    kept = (MAX_ERROR_CHARS - len(mark)) // 2
    return f"{text[:kept]}{mark}{text[-kept:]}"
