"""The size of the arguments of a write, to bound what is held in memory."""

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache

_VALUE_BYTES = 8
"""Size that counts for a number, a flag and everything that is not text, bytes or made of such."""
_VALUES = frozenset((int, float, bool, type(None)))
_TEXTS = frozenset((str, bytes, bytearray))


def size_of(value: object) -> int:
    """Return the bytes of content in ``value``: of its texts, bytes, arrays and numbers, without Python's overhead."""
    kind: type = type(value)
    if kind in _VALUES:
        return _VALUE_BYTES
    if isinstance(value, str | bytes | bytearray):
        return len(value)
    if isinstance(value, Mapping):
        return _sum(value.values())
    if isinstance(value, list) and value and type(value[0]) in _VALUES:
        return _VALUE_BYTES * len(value)
    if isinstance(value, list | tuple):
        return _sum(value)
    if names := _fields(kind):
        return _sum(getattr(value, name) for name in names)
    return int(getattr(value, "nbytes", _VALUE_BYTES))


def _sum(values: Iterable[object]) -> int:
    total = 0
    for value in values:
        kind = type(value)
        if kind in _VALUES:  # a call per value would take most of the time
            total += _VALUE_BYTES
        elif kind in _TEXTS:
            total += len(value)  # type: ignore[arg-type]
        else:
            total += size_of(value)
    return total


@cache
def _fields(kind: type) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass; none for another type."""
    return tuple(one.name for one in fields(kind)) if is_dataclass(kind) else ()
