"""Supervised format warm-up of a new model: it learns the syntax of actions before reinforcement learning begins.

Invariant: the warm-up plays the training split with random valid actions and never calls an environment's oracle.

To warm up on other data, write a generator of ``Episode`` and pass it to the loop in ``sft``.
"""
