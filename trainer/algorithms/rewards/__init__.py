"""Slot ``rewards``: changes to the per-turn rewards of the environment; a list, applied in order.

Invariant: a missing score is None, never 0; the trajectory is then left out of its group.

To add a reward, add a file with one subclass of ``RewardShaper``.
"""
