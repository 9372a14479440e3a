"""Slot ``group_size``: how many episodes a new group plays, and how many a second stage adds.

Invariant: the size is at least 2, since members are compared with one another. It is fixed when the group opens, except
that ``additional`` may raise it once, when all members have ended and before the group closes.

To add a decision, add a file with one subclass of ``GroupSize``.
"""
