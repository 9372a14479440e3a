"""Output of commands: tables or JSON on stdout; errors, and the progress of a long command, on stderr.

With ``--json`` a command prints one JSON document per command and nothing else on stdout. Dates and enums become text;
records become objects.
"""

import dataclasses
import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Enum
from pathlib import Path
from time import monotonic
from typing import Any, Literal

from rich.console import Console

from ...base.process.output import stderr as errors
from ...base.process.output import stdout
from .sanitize import indented, one_line, sanitize, wrapped

GUTTER = "| "
"""Prefix of each line of a value after the first; none of turnwise's own lines begins with it."""


def console(*, stderr: bool = False) -> Console:
    """Return a console without markup, emoji codes and automatic highlighting; with ``NO_COLOR``, without any style."""
    styles: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    out = errors() if stderr else stdout()
    return Console(file=out, markup=False, emoji=False, highlight=False, color_system=styles)


def echo(text: str, *, end: str = "\n") -> None:
    """Print a text on stdout as it is."""
    stdout().write(text + end)
    stdout().flush()


def print_text(text: str, gutter: str = GUTTER, *, start: int = 0, out: Console | None = None) -> None:
    """Print sanitized text; each of its lines after the first begins with ``gutter``. See ``print_lines``."""
    print_lines(indented(text, gutter), gutter, start=start, out=out)


def print_lines(text: str, gutter: str = GUTTER, *, start: int = 0, out: Console | None = None) -> None:
    """Print sanitized text. On a terminal, long lines are wrapped and each wrapped part begins with ``gutter``.

    Args:
        start: columns of the first line that are already printed.
    """
    out = out or console()
    text = sanitize(text)
    out.print(wrapped(text, gutter, out.width, start) if out.is_terminal else text, soft_wrap=True)


def jsonable(value: Any) -> Any:
    """Return the value as JSON types; NaN and infinities become null."""
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
    """Print one JSON document on stdout, on one line if ``indent`` is None. JSON escapes control characters."""
    echo(json.dumps(jsonable(value), indent=indent, ensure_ascii=True, allow_nan=False))


def empty_message(noun: str, filters: Mapping[str, object]) -> str:
    """Return the message for an empty list; it names the filters, or the store if there are none."""
    criteria = ", ".join(f"{name} {value!r}" for name, value in filters.items() if value is not None)
    return f"no {noun} matches {criteria}" if criteria else f"no {noun} in this store"


def print_fields(fields: Mapping[str, object]) -> None:
    """Print sanitized names and values, one per line; skip values that are None or empty.

    Each line of a value after the first begins with the gutter.
    """
    shown = [(one_line(name), text) for name, value in fields.items() if (text := format_value(value))]
    width = max((len(name) for name, _ in shown), default=0)
    for name, text in shown:
        print_text(f"{name:<{width}}  {text}", " " * width + "  " + GUTTER)


def format_value(value: object) -> str:
    """Return a value as text: a float with four digits, a mapping as ``name value, name value``."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {format_value(item)}" for name, item in value.items())
    if isinstance(value, float):
        return "not defined" if math.isnan(value) else f"{value:.4g}"
    return "" if value is None else str(value)


RATES = ("success", "gain", "best_success", "stale_share")
"""Prefixes of the names of rates in the results of ``train`` and ``eval``."""


def result_fields(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result of ``train`` or ``eval`` for ``print_fields``, with rates and their intervals in percent."""
    fields = {name: _percent(value) if name.startswith(RATES) else value for name, value in result.items()}
    for name in ("gain", "best_success"):
        low, high = (fields.pop(f"{name}_{end}", None) for end in ("low", "high"))
        if fields.get(name) and low and high:
            fields[name] += f" [{low}, {high}] (95% interval)"
    return fields


def _percent(value: Any) -> Any:
    """Return a rate, or each rate of a mapping, as ``93.8%``; None if it is not a finite number."""
    if isinstance(value, Mapping):
        return {name: _percent(item) for name, item in value.items()}
    return None if value is None or not math.isfinite(value) else f"{value:.1%}"


def ago(moment: datetime | None, now: datetime) -> str:
    """Return the age of ``moment`` in one unit: ``12 s``, ``5 min``, ``3 h``, ``2 d``."""
    return "" if moment is None else duration(max((now - moment).total_seconds(), 0.0))


def duration(seconds: float) -> str:
    """Return a duration in one unit: ``12 s``, ``5 min``, ``3 h``, ``2 d``."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


class Estimate:
    """Prints to stderr, every ten seconds, how much of the work of a command is done, and how long the rest takes."""

    def __init__(self, what: str) -> None:
        """Begin; ``what`` is done with its units, as in ``groups scored``."""
        self._what = what
        self._began = self._shown = monotonic()

    def __call__(self, done: int, total: int) -> None:
        """Print the line if it is due."""
        from ...trainer.telemetry.progress import INTERVAL_S, remaining

        now = monotonic()
        if now - self._shown >= INTERVAL_S:
            self._shown = now
            line = f"{done:,} of {total:,} {self._what}, {remaining(done, total, now - self._began)}"
            console(stderr=True).print(line, soft_wrap=True)


REFRESH_INTERVAL_S = 0.5
"""Seconds between two changes of the line."""


class Progress:
    """Shows the stage of a command and its counts on stderr, on one line that changes; nothing of them if stderr is not
    a terminal."""

    def __init__(self) -> None:
        self._is_live = sys.stderr.isatty()
        self._last = -REFRESH_INTERVAL_S
        self._is_shown = False

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show ``done`` of ``total`` units of a stage; a total of 0 is unknown."""
        if not self._is_live or (now := monotonic()) - self._last < REFRESH_INTERVAL_S:
            return
        self._last = now
        self.show(f"{stage}: {done:,}" + (f" of {total:,}" if total else ""))

    def show(self, text: str) -> None:
        """Show a text; on a line of its own if stderr is not a terminal."""
        self._is_shown = self._is_live
        sys.stderr.write(f"\r\x1b[K{text}" if self._is_live else f"{text}\n")
        sys.stderr.flush()

    def clear(self) -> None:
        """Remove the line, before other output."""
        if self._is_shown:
            self._is_shown = False
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
