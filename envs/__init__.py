"""Environments (floor 2): Gymnasium worlds of text and image, how they are found, run with deadlines, and checked.

Knows nothing of tokens, policies or training.
"""

from .base import Obs, TurnEnv
from .errors import EnvError, EnvironmentBroken, EnvironmentFailed, EnvTimeout, UnknownEnvironment
from .registry import all_ids, make
from .spaces import FreeText
from .tasks import make_task

__all__ = [
    "EnvError",
    "EnvTimeout",
    "EnvironmentBroken",
    "EnvironmentFailed",
    "FreeText",
    "Obs",
    "TurnEnv",
    "UnknownEnvironment",
    "all_ids",
    "make",
    "make_task",
]
