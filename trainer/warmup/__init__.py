"""Supervised format warm-up of a new model."""
