"""Slot ``horizon``: how many turns and tokens an episode may take (interaction scaling; TTI, Shen et al. 2025,
arXiv:2506.07976).

A schedule moves the limit on turns with the number of updates or per task; the limits on tokens are constant.

Invariant: one horizon per group, fixed when the group opens, since its members are compared with one another.

To add a schedule, add a file with one subclass of ``HorizonSchedule``.
"""
