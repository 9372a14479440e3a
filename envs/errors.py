"""What can go wrong with an environment, as seen by those who run it.

    EnvError
    ├── UnknownEnvironment    the id names nothing; the message names the nearest one
    ├── EnvironmentFailed     the environment raised; the message ends with its traceback's last lines
    ├── EnvironmentBroken     it answered, but not as its contract says (type, NaN, size)
    └── EnvTimeout            it did not answer before its deadline

Every one is a failure of the world, never a reward: the loop turns it into a trajectory's status and text.
"""

from ..errors import TurnwiseError


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
