"""Agents: players, the engine that samples their tokens, and the rollouts that record their turns.

Invariant: the tokens that the policy sampled reach the store as the engine reported them; none is encoded again.
Folders import downwards only: tokens, weights < engine < rollout < players.
"""
