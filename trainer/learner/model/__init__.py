"""Models of the learner: loading them, their forward pass over packed tokens, and a trainable copy that scores tokens.

Invariant: a sequence attends only to itself, so the log-probabilities of its tokens do not depend on the packing.
"""
