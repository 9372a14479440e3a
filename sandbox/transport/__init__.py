"""Carry requests between the host and the agent inside a sandbox."""
