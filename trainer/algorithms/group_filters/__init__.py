"""Slot ``group_filters``: whether a closed group is trained on; a list, the first rejection counts.

Invariant: a filter reads shaped rewards, so groups that only a judge can tell apart are kept.

To add a group filter, add a file with one subclass of ``GroupFilter``.
"""
