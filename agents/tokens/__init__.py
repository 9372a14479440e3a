"""Token-in, token-out bookkeeping of a conversation."""
