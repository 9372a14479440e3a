"""Slot ``group_filters``: whether a closed group is trained on; a list, the first rejection counts.

To add a group filter, add a file with one subclass of ``GroupFilter``.
"""
