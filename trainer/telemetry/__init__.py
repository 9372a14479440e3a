"""What a run reports: events, metrics, learning curve."""
