"""Upper bounds of every number in a configuration: a larger one is a slip, and fails deep inside a started run."""

from collections.abc import Iterator, Mapping
from typing import Any

MAX_COUNT = 2**31 - 1
"""Largest count and largest seed; numpy's old generators refuse a seed above 2**32."""
MAX_BYTES = 2**53
"""Largest size, for keys that end in `_bytes` or are named in ``SIZES``."""
SIZES = frozenset({"max_size"})
MAX_SECONDS = 1e9
"""Longest time, for keys that end in `_s` or `_seconds`: about 30 years. A wait of 300 years overflows its clock."""
FREE = frozenset({"options", "rewards"})
"""Tables whose numbers have a meaning of their own: of environments, backends and reward shapers."""


def too_large(resolved: Mapping[str, Any]) -> list[str]:
    """Return a line per number of a resolved configuration that is above the bound of its kind, in magnitude."""
    return [
        f"`{key}`: {_shown(value)} is beyond the limit of {bound:,.0f}" for key, value, bound in _large(resolved, "")
    ]


def _shown(value: float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value) if abs(value) < 10**20 else f"{str(value)[:8]}…"


def _large(value: Any, path: str) -> Iterator[tuple[str, float, float]]:
    name = path.rpartition(".")[2]
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key not in FREE:
                yield from _large(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _large(item, f"{path}.{place}")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        bound = _bound(name, value)
        if bound is not None and abs(value) > bound:
            yield path, value, bound


def _bound(name: str, value: float) -> float | None:
    if name.endswith(("_s", "_seconds")):
        return MAX_SECONDS
    if not isinstance(value, int):
        return None
    return MAX_BYTES if name.endswith("_bytes") or name in SIZES else MAX_COUNT
