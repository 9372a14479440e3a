"""Move weights from the learner to the engines."""
