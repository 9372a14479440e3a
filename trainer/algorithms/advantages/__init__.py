"""Slot ``advantage``: the advantage of each turn or token, compared with the other members of its group or batch.

Invariant: an estimator sees scored members only, so an absent member changes an advantage by its absence alone. A
group of one gets zeros.

To add an estimator, add a file with one subclass of ``GroupAdvantage``, or of ``AdvantageEstimator`` for one that
compares groups with each other.
"""
