"""Check, play and create environments."""
