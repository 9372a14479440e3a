"""Provenance of an update: facts that the store holds nowhere else and that repeating the update needs.

Invariant: with the stored trajectories, the provenance determines the update. It holds results (advantages, weights,
the order of the samples), not the state of the components that computed them, so any method can be repeated.

To record another fact per token, add an array to ``details``; a fact per update is a field of ``recipe``.
"""
