"""Slot `losses`: the objective."""
