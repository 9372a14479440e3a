"""Slot ``rollout_control``: how many members a group opens, and which of them continue.

Invariant: a controller decides in the rollout workers and keeps no state there. Each training group gets a copy of the
driver's controller, as it is when the group opens; evaluation groups have none.

To add a controller, add a file with one subclass of ``RolloutController``.
"""
