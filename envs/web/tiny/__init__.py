"""Small web tasks for a tiny policy."""
