"""Agents: everything between an environment and the store that acts.

Invariant: the tokens that the policy sampled reach the store as the engine reported them; none is encoded again.
Folders import downwards only: tokens, weights < engine < rollout < players.
"""
