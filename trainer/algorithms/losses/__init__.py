"""Slot ``loss``: the objective of an update.

Invariant: a loss divides by the totals of the optimizer step, never by the number of tokens it kept.

To add a loss, add a file with one subclass of ``PolicyLoss``; its file name is the value of ``[loss] name``.
"""
