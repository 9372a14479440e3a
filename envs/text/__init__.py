"""The text environment of the quick start."""
