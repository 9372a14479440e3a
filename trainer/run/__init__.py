"""One run from start to end: identity, initial state, loop, summary."""
