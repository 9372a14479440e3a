"""Train a past run again from its store, and compare the weights of every update with those that the run made.

``stored_batch`` builds the samples of a stored update, and lists their tokens for ``turnwise runs lineage``; ``repeat``
trains on them. Neither an engine nor Ray starts.
"""
