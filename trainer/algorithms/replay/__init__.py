"""Slot ``replay_buffer``: which stored groups are trained on again.

Invariant: a buffer reads the store through ``RunReader``, and its reused trajectories never count as fresh ones.

To add a replay buffer, add a file with one subclass of ``ReplayBuffer``.
"""
