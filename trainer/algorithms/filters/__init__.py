"""Slot `filters`: which groups and samples are trained on."""
