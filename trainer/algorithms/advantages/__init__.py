"""Slot ``advantage``: the advantage of each turn, compared with the other members of its group.

Invariant: an estimator sees scored members only, so an absent member changes an advantage by its absence alone. A
group of one gets zeros.

To add an estimator, add a file with one subclass of ``AdvantageEstimator``.
"""
