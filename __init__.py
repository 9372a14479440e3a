"""turnwise: train language-model agents by reinforcement learning in real multi-turn environments.

The repository root is this package. Its folders are the floors of the house, each importing only those below it:
``records`` (0), ``sandbox`` and ``store`` (1), ``envs`` (2), ``agents`` (3), ``trainer`` (4), ``console`` (5).
"""

__version__ = "0.1.0"
