"""The reports of a run: events for the console, and metrics in files.

Invariant: nothing here imports another part of the trainer, and no number here influences training.

To add a metric, return it from ``learner.batch_stats`` or a loss. To add a tracker, see ``trackers``.
"""
