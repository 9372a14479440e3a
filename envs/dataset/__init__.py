"""Environments of rows and reward functions: ``DatasetEnv``.

``env`` is the base class, ``rows`` reads the rows of a split, ``rubric`` calls the reward functions, and ``coroutines``
runs those that are asynchronous. A fault of the rows or of a reward function is an error of the environment that names
the row and the function, never a reward. To read another kind of file, add its suffix to ``rows.READERS``.
"""

from .env import DatasetEnv

__all__ = ["DatasetEnv"]
