"""How commands print: tables for people, JSON for programs, errors on stderr.

JSON is one document a command, on stdout, with nothing else there; what a program cannot be given as it is (dates,
enums, records) becomes text or objects.
"""

import dataclasses
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from .sanitize import cell, indented, one_line

PIPED_WIDTH = 240
"""Columns of a table that goes to a file or another program, where nothing should be folded."""
GUTTER = "| "
"""Before each further line of a value; no line of turnwise's begins with it."""


def console(*, stderr: bool = False) -> Console:
    """A console that reads no markup, makes no emoji of ``:smile:`` and colors nothing by guessing."""
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def jsonable(value: Any) -> Any:
    """The value in JSON's terms; NaN and infinities become null, since JSON has none."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: jsonable(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str | bool | int | None):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Sequence | set | frozenset):
        return [jsonable(item) for item in value]
    if hasattr(value, "_mapping"):
        return jsonable(value._mapping)
    return jsonable(value.tolist()) if hasattr(value, "tolist") else str(value)


def print_json(value: Any, *, indent: int | None = 2) -> None:
    """One JSON document on stdout; ``indent=None`` puts it on one line. JSON itself escapes control characters."""
    sys.stdout.write(json.dumps(jsonable(value), indent=indent, ensure_ascii=True, allow_nan=False) + "\n")
    sys.stdout.flush()


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """A table of cleaned cells, or the line ``empty`` where there is no row."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(cell(value) for value in row))
    out = console()
    if not out.is_terminal:
        out.width = PIPED_WIDTH
    if table.row_count:
        out.print(table)
    else:
        out.print(empty)


def none_of(noun: str, filters: Mapping[str, object]) -> str:
    """What an empty list says: of the filters that were given, or of the store where there were none."""
    given = ", ".join(f"{name} {value!r}" for name, value in filters.items() if value is not None)
    return f"no {noun} matches {given}" if given else f"no {noun} in this store"


def print_facts(facts: Mapping[str, object]) -> None:
    """Names and values, cleaned, one per line; a value's further lines follow a gutter. What is None or empty is left
    out.
    """
    out = console()
    shown = [(one_line(name), text) for name, value in facts.items() if (text := in_words(value))]
    width = max((len(name) for name, _ in shown), default=0)
    for name, text in shown:
        out.print(f"{name:<{width}}  {indented(text, ' ' * width + '  ' + GUTTER)}", soft_wrap=True)


def in_words(value: object) -> str:
    """A value for a person: four digits of a number, ``name value, name value`` of a mapping."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {in_words(item)}" for name, item in value.items())
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else str(value)


RATES = ("success", "families", "gain", "stale_share")
"""What the names of shares begin with in the results of ``train`` and ``eval``."""
INTERVALS = {"success": ("low", "high"), "gain": ("gain_low", "gain_high")}
"""Which of them have a 95 % interval, and the names of its ends."""


def result_facts(result: Mapping[str, Any]) -> dict[str, Any]:
    """A result of ``train`` or ``eval`` for ``print_facts``: its shares in per cent, some with their interval."""
    shares = (*RATES, *(end for ends in INTERVALS.values() for end in ends))
    facts = {name: _percent(value) if name.startswith(shares) else value for name, value in result.items()}
    for name, ends in INTERVALS.items():
        low, high = (facts.pop(end, None) for end in ends)
        if facts.get(name) and low and high:
            facts[name] += f" [{low}, {high}] (95% interval)"
    return facts


def _percent(value: Any) -> Any:
    """``93.8%``; each of a mapping's values so; None where there is no number."""
    if isinstance(value, Mapping):
        return {name: _percent(item) for name, item in value.items()}
    return None if value is None or not math.isfinite(value) else f"{value:.1%}"


def ago(moment: datetime | None, now: datetime) -> str:
    """How long ago, in one unit: ``12 s``, ``5 min``, ``3 h``, ``2 d``."""
    if moment is None:
        return ""
    seconds = max((now - moment).total_seconds(), 0.0)
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
