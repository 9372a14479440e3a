"""Slot ``group_size``: how many episodes a new group plays.

Invariant: the size is fixed when the group opens, and is at least 2, since members are compared with one another.

To add a decision, add a file with one subclass of ``GroupSize``.
"""
