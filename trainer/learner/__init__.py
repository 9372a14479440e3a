"""Train on leased groups: batch assembly, packing, the update, checkpoints.

Invariant: a batch is consumed and its version recorded in one transaction, after the optimizer steps and before any
engine serves the version.

To change what a batch contains, edit ``batch``. To add a metric of an update, add it to ``batch_stats``. To change the
objective, add a loss to ``trainer.algorithms.losses``, not to this package.
"""
