"""Supervised warm-up before reinforcement learning: of the syntax, or from right actions.

Invariant: the warm-up plays the training split, and calls an environment's oracle only if the configuration says so.

To warm up on other data, import it into the store (``stored_episodes``).
"""
