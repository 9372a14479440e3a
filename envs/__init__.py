"""Environments (floor 2): Gymnasium environments of text and image, found by id, run with timeouts, and checked.

This part imports no tokens, policies or training. ``base`` is the contract, ``registry`` finds environments, ``runner``
calls them, ``authoring`` checks, plays and creates them; ``draws`` draws the instance of a seed, and ``splits`` holds
templates out. ``dataset`` is the base of environments of rows and reward functions. ``worlds`` are the shipped
environments. To add one of your own, run `turnwise envs new`. To ship one, add a folder to ``worlds``.
"""

from .base import Obs, TurnEnv
from .dataset import DatasetEnv
from .errors import EnvError, EnvironmentBroken, EnvironmentFailed, EnvTimeout, UnknownEnvironment
from .registry import all_ids, make
from .spaces import FreeText, Png, PngSpace
from .tasks import make_task

__all__ = [
    "DatasetEnv",
    "EnvError",
    "EnvTimeout",
    "EnvironmentBroken",
    "EnvironmentFailed",
    "FreeText",
    "Obs",
    "Png",
    "PngSpace",
    "TurnEnv",
    "UnknownEnvironment",
    "all_ids",
    "make",
    "make_task",
]
