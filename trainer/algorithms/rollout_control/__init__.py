"""Slot ``rollout_control``: whether an episode continues after a turn.

Invariant: a controller runs in the rollout workers and keeps no state there.

To add a controller, add a file with one subclass of ``RolloutController``.
"""
