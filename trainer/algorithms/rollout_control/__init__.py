"""Slot `rollout_control`: continue or stop a running episode."""
