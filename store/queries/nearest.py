"""The error for an id that the store does not hold: it names the nearest id that the store holds."""

import difflib
from itertools import takewhile
from typing import Any

from sqlalchemy import Column, Connection, select

from ..errors import NotFound

CANDIDATES = 1000
"""Ids that are compared at most: those that begin alike, and as many of the newest."""
CUTOFF = 0.5
"""Similarity (``difflib``) below which no id is suggested."""


def unknown(conn: Connection, table: Any, noun: str, wanted: str) -> NotFound:
    """The error that says that no ``noun`` of the id ``wanted`` is stored, with the nearest id and the listing command.

    Reads at most twice ``CANDIDATES`` ids, however many ``table`` holds. ``table`` has the columns id and created_at.
    """
    newest = select(table.c.id).order_by(table.c.created_at.desc()).limit(CANDIDATES)
    known = {*_alike(conn, table.c.id, wanted), *conn.execute(newest).scalars()}
    near = max(sorted(known), key=lambda one: _similarity(one, wanted), default="")
    hint = f" (did you mean {near!r}?)" if near and _similarity(near, wanted) >= (CUTOFF,) else ""
    return NotFound(
        f"no {noun} {wanted} in the store{hint}; `turnwise {plural(noun)} list` lists those that are stored"
    )


def plural(noun: str) -> str:
    """``run`` as ``runs``, ``trajectory`` as ``trajectories``: the group of commands that concerns it."""
    return noun.removesuffix("y") + "ies" if noun.endswith("y") else noun + "s"


def _similarity(one: str, other: str) -> tuple[float, int]:
    """The similarity of two ids, from 0 to 1; then the length of their common prefix, which decides between equals."""
    shared = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio(), len(list(shared))


def _alike(conn: Connection, column: Column[str], wanted: str) -> list[str]:
    """Ids that share the longest stored prefix of ``wanted``, found by bisection; none if only the empty one is."""
    low, high = 0, len(wanted)
    found: list[str] = []
    while low < high:
        middle = (low + high + 1) // 2
        which = select(column).where(column.startswith(wanted[:middle], autoescape=True)).limit(CANDIDATES)
        if some := list(conn.execute(which).scalars()):
            low, found = middle, some
        else:
            high = middle - 1
    return found
