"""Slot ``proximal``: the policy that anchors the clip range.

Invariant: proximal log-probabilities carry no gradient.

To add a proximal policy, add a file with one subclass of ``ProximalPolicy``.
"""
