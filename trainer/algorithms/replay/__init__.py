"""Slot `replay`: which stored groups are used again."""
