"""The error for an unknown id: it names the nearest id in the store."""

import difflib
from itertools import takewhile
from typing import Any

from sqlalchemy import Column, Connection, select

from ..errors import NotFound

CANDIDATES = 1000
"""The most ids to compare: those next to the wanted one in the order of ids, and as many of the newest."""
CUTOFF = 0.5
"""Similarity (``difflib``) below which no id is suggested."""

COMPARED_CHARS = 40
"""The similarity is that of the beginnings of two ids: it takes time by the product of their lengths."""


def not_found(conn: Connection, table: Any, noun: str, wanted: str) -> NotFound:
    """Return the error for the unknown id ``wanted`` of a ``noun``, with the nearest id and the command that lists ids.

    ``table`` is as for ``nearest``.
    """
    if not wanted:
        return NotFound(f"the id of the {noun} is empty; `turnwise {plural(noun)} list` lists all ids")
    near = nearest(conn, table, wanted)
    hint = f" (did you mean {near!r}?)" if near else ""
    return NotFound(f"no {noun} {wanted} in the store{hint}; `turnwise {plural(noun)} list` lists all ids")


def nearest(conn: Connection, table: Any, wanted: str) -> str:
    """Return the id that is most like ``wanted``; empty if none is like it.

    Reads at most twice ``CANDIDATES`` ids, however many ``table`` holds. ``table`` has the columns id and created_at.
    """
    newest = select(table.c.id).order_by(table.c.created_at.desc()).limit(CANDIDATES)
    known = {*_alike(conn, table.c.id, wanted), *conn.execute(newest).scalars()}
    near = max(sorted(known), key=lambda one: _similarity(one, wanted), default="")
    return near if near and _similarity(near, wanted) >= (CUTOFF,) else ""


def plural(noun: str) -> str:
    """Return ``runs`` for ``run`` and ``trajectories`` for ``trajectory``: the name of its command group."""
    return noun.removesuffix("y") + "ies" if noun.endswith("y") else noun + "s"


def _similarity(one: str, other: str) -> tuple[float, int]:
    """Return the similarity of two ids (0 to 1) and the length of their common prefix, which breaks ties."""
    shared = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    beginnings = one[:COMPARED_CHARS], other[:COMPARED_CHARS]
    return difflib.SequenceMatcher(None, *beginnings, autojunk=False).ratio(), len(list(shared))


def _alike(conn: Connection, column: Column[str], wanted: str) -> list[str]:
    """Return the ids next to ``wanted`` in the order of ids: those that share its longest stored prefix are there."""
    before = select(column).where(column <= wanted).order_by(column.desc())
    after = select(column).where(column > wanted).order_by(column)
    return [found for which in (before, after) for found in conn.execute(which.limit(CANDIDATES // 2)).scalars()]
