"""Families of procedural code tasks, each a module: a pure function from a draw to a task with its solution and the
wrong solutions that must fail.
"""

from .draw import FAMILIES, SPLITS, draw

__all__ = ["FAMILIES", "SPLITS", "draw"]
