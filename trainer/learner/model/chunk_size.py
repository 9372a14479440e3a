"""How many logits the learner computes at once; importable without torch."""

LOGITS_PER_CHUNK = 1 << 25
"""Logits of one chunk, at most: 128 MiB in float32. A chunk has at least one row."""
