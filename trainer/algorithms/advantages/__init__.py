"""Slot `advantages`: credit per turn."""
