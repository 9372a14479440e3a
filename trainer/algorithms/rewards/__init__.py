"""Slot `rewards`: shaped step rewards."""
