"""Offline training: the groups come from another run in the store, and nothing is played.

Invariant: the other run stays as it is, and each of its groups is in at most one surviving batch of this run.

To change which groups are trained on, or their order, edit ``batches``. ``update`` trains on one batch, ``loop`` on all
of them; ``versions`` decides on the staleness, and ``trainable`` refuses groups whose rewards may be forged.
"""
