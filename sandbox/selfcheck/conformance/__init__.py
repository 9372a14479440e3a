"""Cases that every backend must pass."""
