"""From records to HTML: the templates' environment, with its filters.

Every printed value is escaped, and characters that act on a screen are replaced by visible ones: a control character, a
mark that reorders text, half of a surrogate pair. No template marks a value as safe.
"""

import json
import re
import shlex
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from math import ceil, isfinite, log
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ...trainer.run.retraining.token_rows import TokenRow
from ..terminal.output import ago, duration

_ACTING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
MISSING = "–"
SHADES = 9


def visible(value: Any) -> Any:
    """Return a value as it is printed: a text without characters that act on the screen, a dash for None."""
    if value is None:
        return MISSING
    if isinstance(value, Markup):
        return value
    return _ACTING.sub(_sign, str(value).replace("\r\n", "\n"))


def _sign(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return f"⟨{unicodedata.name(found[0], f'U+{code:04X}').lower()}⟩"


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
    whole = isinstance(value, int) or abs(value) >= 1000
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


def shade(row: TokenRow, first_version: int) -> str:
    """Return the classes of a token in the strip: one per way to shade it, with ``SHADES`` steps."""
    names = ["m1" if row.mask else "m0"]
    if row.logprob is not None:
        names.append(f"l{int(min(SHADES, -2 * row.logprob + 0.5))}")
    if row.advantage is not None:
        names.append(f"a{'p' if row.advantage >= 0 else 'n'}{ceil(min(SHADES, 4 * abs(row.advantage)))}")
    if row.importance_weight is not None:
        off = abs(log(max(row.importance_weight, 1e-6)))
        names.append(f"w{int(min(SHADES, 10 * off + 0.5))}")
    if row.version is not None:
        names.append(f"v{(row.version - first_version) % 6}")
    return " ".join(names)


@dataclass(frozen=True, slots=True)
class Plot:
    """A curve of 1000 x 60 units as the path of an SVG."""

    path: str
    low: float
    high: float
    zero: float
    """The height of zero, or of the nearest end."""


def plot(values: Sequence[float | None]) -> Plot:
    """Return the steps of ``values``, of which at least one is known; zero is always within the plot."""
    known = [one for one in values if one is not None]
    low, high = min(0.0, *known), max(0.0, *known)
    height, width = (high - low) or 1.0, 1000 / len(values)
    path, pen = "", "M"
    for place, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        y = 58 - 56 * (value - low) / height
        path += f"{pen}{place * width:.1f},{y:.1f}H{(place + 1) * width:.1f}"
        pen = "L"
    return Plot(path, low, high, 58 + 56 * low / height)


@cache
def environment() -> Environment:
    """Return the templates of the viewer."""
    made = Environment(
        loader=PackageLoader("turnwise.console.viewer"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        **{one.__name__: one for one in (number, seconds, signed, percent, points, since, plain, moment)},
        "shell": lambda words: shlex.join(map(str, words)),
        "known": lambda value: value if isfinite(value) else 0.0,
        "shade": shade,
        "plot": plot,
        "span": lambda seconds: MISSING if seconds is None else duration(seconds),
    }
    made.globals |= {"url": url, "without": without}
    return made


def render(templates: Environment, name: str, context: Mapping[str, Any]) -> str:
    """Return a page."""
    return templates.get_template(name).render(context)
