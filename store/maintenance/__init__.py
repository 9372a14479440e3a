"""The care of a store that people keep: retention, integrity, sizes, backups and the search index.

``collect`` applies a retention policy and deletes garbage. ``integrity`` finds rows that were altered, exchanged or
deleted. Nothing here runs on the path of a write; every change is a transaction of at most some hundred rows, so that
a run goes on meanwhile, and a process that dies at any point loses nothing.
"""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Receives the name of a stage, how many of its units are done, and how many there are (0: unknown)."""
