"""Slot `curriculum`: which task, which prompt, how many members, how long."""
