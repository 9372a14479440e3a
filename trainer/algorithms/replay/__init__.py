"""Slot ``replay_buffer``: which stored groups are trained on again.

To add a replay buffer, add a file with one subclass of ``ReplayBuffer``.
"""
