"""From records to HTML: the templates' environment, with its filters.

Every printed value is escaped, and characters that act on a screen are replaced by visible ones (``visible``). No
template marks a value as safe.
"""

import json
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from math import isfinite
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined

from ..terminal.output import ago, duration
from .token_marks import plot, strip
from .visible import MISSING, visible


def url(*segments: object, **query: object) -> str:
    """Return the path of a page; every segment and value is quoted, and values that are None are left out."""
    path = "/" + "/".join(quote(str(one), safe="", errors="replace") for one in segments)
    given = {name: str(value) for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given, errors='replace')}" if given else path


def without(query: Mapping[str, str], name: str, value: str | None = None) -> str:
    """Return a query with ``name`` removed or replaced by ``value``; a changed filter leads to the first page."""
    paging = {name, "after", "start"}
    kept = {key: one for key, one in query.items() if key not in paging} | ({name: value} if value else {})
    return f"?{urlencode(kept, errors='replace')}" if kept else ""


def number(value: float | None, digits: int = 3) -> str:
    """Return a number with separators, and with ``digits`` significant digits if it is not whole."""
    if value is None or not isfinite(value):
        return MISSING
    whole = abs(value) < 1e15 and (isinstance(value, int) or abs(value) >= 1000)
    return (f"{value:,.0f}" if whole else f"{value:.{digits}g}").replace("-", "−")


def signed(value: float | None, digits: int = 3) -> str:
    """Return a number with its sign, a real minus included."""
    return MISSING if value is None or not isfinite(value) else f"{value:+.{digits}g}".replace("-", "−")


def seconds(value: float) -> str:
    """Return a duration: ``0.4 ms``, ``110 ms``, ``2.4 s``, ``3 min``."""
    if value >= 60:
        return duration(value)
    return f"{value:.2g} s" if value >= 1 else f"{1000 * value:.0f} ms" if value >= 0.001 else "< 1 ms"


def percent(value: float | None, digits: int = 0) -> str:
    """Return a rate in percent."""
    return MISSING if value is None or not isfinite(value) else f"{100 * value:.{digits}f} %"


def points(value: float | None) -> str:
    """Return a difference of rates in percentage points."""
    return MISSING if value is None or not isfinite(value) else f"{100 * value:+.1f} pp".replace("-", "−")


def since(moment: datetime | None) -> str:
    """Return the age of a moment."""
    return ago(moment, datetime.now(UTC)) or MISSING


def plain(value: Any) -> str:
    """Return a value of a configuration as JSON."""
    return json.dumps(value, ensure_ascii=False, default=str)


def moment(value: datetime | None) -> str:
    """Return a time in UTC to the second."""
    return MISSING if value is None else f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


@cache
def environment() -> Environment:
    """Return the templates of the viewer."""
    made = Environment(
        loader=PackageLoader("turnwise.console.viewer"),
        autoescape=True,
        auto_reload=False,  # an upgrade of the package would mix new templates with old code
        undefined=StrictUndefined,
        finalize=visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        **{one.__name__: one for one in (number, seconds, signed, percent, points, since, plain, moment)},
        "shell": lambda words: shlex.join(map(str, words)),
        "known": lambda value: value if isfinite(value) else 0.0,
        "strip": strip,
        "plot": plot,
        "span": lambda seconds: MISSING if seconds is None else duration(seconds),
    }
    made.globals |= {"url": url, "without": without}
    return made


def render(templates: Environment, name: str, context: Mapping[str, Any]) -> str:
    """Return a page."""
    return templates.get_template(name).render(context)
