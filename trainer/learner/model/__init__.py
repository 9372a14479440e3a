"""Models of the learner: loading them, their forward pass over packed tokens, and a trainable copy that scores tokens.

Invariant: a sequence attends only to itself, so the log-probabilities of its tokens do not depend on the packing.
"""

LOGITS_PER_CHUNK = 1 << 25
"""Logits that the learner computes at once, at most: 128 MiB in float32. A chunk has at least one row."""
PATCHES_KEPT_BYTES = 256 << 20
"""Bytes of prepared images that a model keeps on its host during an update, those of the last used. A screenshot of
1280 x 800 has 25 MB."""
