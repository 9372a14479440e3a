"""Read the store: lists, summaries and whole records."""
