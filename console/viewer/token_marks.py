"""Tokens as HTML: each carries one class per value by which the strip can be shaded, and a curve of each value."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, isfinite, log, log10

from markupsafe import Markup, escape

from ...trainer.learner.provenance.token_rows import TokenRow
from .visible import visible

LEVELS = 9
VERSION_COLORS = 6
SMALLEST_MISMATCH = 1e-4
"""In nats; a smaller one has no color. From here, each factor of about 3 is one level."""
CHUNK, CHUNK_MAX = 400, 800
"""A browser lays a block of tokens out once it is near the window. A block ends with a line, or after the maximum."""
COLUMNS = 1_000
PLOTTED_MAX = 1e300
"""The difference of two larger numbers is infinite."""


def shade(row: TokenRow, first_version: int) -> str:
    """Return the classes of a token that the policy sampled: one per way to shade it; empty for every other token."""
    if not row.mask:
        return ""
    names = ["m"]
    if row.logprob is not None:
        names.append(f"l{_level(-2 * row.logprob)}")
    if row.entropy is not None:
        names.append(f"e{_level(3 * row.entropy)}")
    if row.advantage is not None:
        names.append(f"a{'p' if row.advantage >= 0 else 'n'}{ceil(min(LEVELS, 4 * abs(row.advantage)))}")
    if row.mismatch is not None:
        off = abs(row.mismatch)
        level = 0 if off <= SMALLEST_MISMATCH else ceil(min(LEVELS, 2 * log10(off / SMALLEST_MISMATCH)))
        names.append(f"x{'p' if row.mismatch >= 0 else 'n'}{level}")
    if row.importance_weight is not None:
        names.append(f"w{_level(10 * abs(log(max(row.importance_weight, 1e-6))))}")
    if row.staleness is not None:
        names.append(f"s{min(LEVELS, row.staleness)}")
    if row.version is not None:
        names.append(f"v{(row.version - first_version) % VERSION_COLORS}")
    return " ".join(names)


def _level(value: float) -> int:
    return int(min(LEVELS, max(0.0, value) + 0.5))


def strip(rows: Sequence[TokenRow], first_version: int, chosen: int | None = None) -> Markup:
    """Return tokens as elements ``i`` in blocks; every text is escaped.

    Args:
        chosen: index of the token that the URL names, which gets the id ``token``.
    """
    blocks: list[str] = []
    block: list[str] = []
    for place, row in enumerate(rows):
        text = str(visible(row.text if row.text is not None else row.id))
        classes = shade(row, first_version)
        named = f' class="{classes}"' if classes else ""
        block.append(
            f"<i{named}{' id=token' if place == chosen else ''}>{escape(text)}</i>{'' if row.text is not None else ' '}"
        )
        if len(block) >= CHUNK_MAX or (len(block) >= CHUNK and text.endswith("\n")):
            blocks.append("".join(block))
            block = []
    blocks += ["".join(block)] if block else []
    return Markup("".join(f"<div>{one}</div>" for one in blocks))  # noqa: S704 - each text is escaped above


@dataclass(frozen=True, slots=True)
class Plot:
    """A curve of 1000 x 60 units as the path of an SVG."""

    path: str
    low: float
    high: float
    zero: float
    """The height of zero, or of the nearest end."""


def plot(values: Sequence[float | None]) -> Plot:
    """Return the steps of ``values``, of which at least one is known; zero is always within the plot.

    Of more than ``COLUMNS`` values, each step is the one of the largest magnitude in its part.
    """
    columns = min(COLUMNS, len(values))
    edges = [len(values) * place // columns for place in range(columns + 1)]
    steps = [_largest(values[start:end]) for start, end in pairwise(edges)]
    known = [one for one in steps if one is not None]
    low, high = min(0.0, *known), max(0.0, *known)
    height, width = (high - low) or 1.0, 1000 / columns
    path, pen = "", "M"
    for place, value in enumerate(steps):
        if value is None:
            pen = "M"
            continue
        y = 58 - 56 * (value - low) / height
        path += f"{pen}{place * width:.1f},{y:.1f}H{(place + 1) * width:.1f}"
        pen = "L"
    return Plot(path, low, high, 58 + 56 * low / height)


def _largest(values: Sequence[float | None]) -> float | None:
    known = (min(max(one, -PLOTTED_MAX), PLOTTED_MAX) for one in values if one is not None and isfinite(one))
    return max(known, key=abs, default=None)
