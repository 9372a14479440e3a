"""Models of the learner: loading them, and their forward pass over packed tokens.

Invariant: a sequence attends only to itself, so the log-probabilities of its tokens do not depend on the packing.
"""
