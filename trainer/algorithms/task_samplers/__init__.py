"""Slot ``task_sampler``: which task the next group plays.

To add a task sampler, add a file with one subclass of ``TaskSampler``.
"""
