"""Attacks that a sandbox must contain."""
