"""Models of the learner: loading them, their forward pass over packed tokens, and a trainable copy that scores tokens.

Invariant: a sequence attends only to itself, so the log-probabilities of its tokens do not depend on the packing.
"""

LOGITS_PER_CHUNK = 1 << 25
"""Logits that the learner computes at once, at most: 128 MiB in float32. A chunk has at least one row."""
