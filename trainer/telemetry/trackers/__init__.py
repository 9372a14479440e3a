"""Trackers: programs outside turnwise that receive the metrics of a run, such as Weights & Biases.

Invariant: a tracker never ends or delays a run. Each one runs in its own thread (``thread``) with a bounded queue, and
receives the numbers of ``metrics.jsonl``. One that fails, lags or hangs costs one warning.

To add a tracker, write one file with one class that has the methods of ``base.Tracker``, and ``PACKAGE``, the package
that it imports. The file's name is its name in the configuration.
"""
