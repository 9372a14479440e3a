"""Slot ``rewards``: changes to the per-turn rewards of the environment; a list, applied in order.

Invariants: a group is shaped once, when it closes, and the result is stored with it. A missing score is None, never 0;
the trajectory is then left out of its group.

To add a reward, add a file with one subclass of ``RewardShaper``.
"""
