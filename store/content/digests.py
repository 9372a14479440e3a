"""Digests of what is stored, so that an altered, exchanged or deleted turn, episode, reward or batch is found.

* Each step has a digest of its columns, which include its messages, and of its images. A partial turn has one, too.
* A trajectory that has ended has a seal: the digest of its id, of the columns that its end writes, of the digests of
  its steps and partial turns, and of the images of its messages.
* A reward and a batch have one digest each; the batch's covers its groups and items.

The rows that a driver writes about a run (tasks, groups, versions, leases, metrics) have none, nor has the start of a
trajectory: an edit of them by hand is found only where it contradicts other rows.

The digests are computed before the rows are stored, and compared with the rows when a trajectory is loaded and by
``turnwise db check``. Both use the functions of this module: values are written as canonical JSON, with numbers up to
2⁵³ as floats, because JSONB keeps neither the order of keys nor the notation of a number.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from hashlib import sha256
from operator import itemgetter
from types import MappingProxyType
from typing import Any
from uuid import UUID

from ..schema import message_image, partial_turn, step, step_image
from ..schema.types import time_text

ROW_BYTES = 8
"""Bytes of the digest of a step or partial turn."""
_APART = ("trajectory_no", "messages", "digest")
_STEP, _PARTIAL = (tuple(c.name for c in table.c if c.name not in _APART) for table in (step, partial_turn))
_MESSAGE_IMAGE = tuple(c.name for c in message_image.c if c.name != "trajectory_no")
_STEP_IMAGE = tuple(c.name for c in step_image.c if c.name not in ("trajectory_no", "step_idx"))


def canonical(values: Iterable[Any]) -> str:
    """Return values as JSON in one notation: keys sorted, times as ``types.time_text`` writes them, bytes and UUIDs
    in hex.

    The numbers of a document (a mapping or sequence) are written as floats, above 2⁵³ as whole numbers; those of a
    column keep its type. A negative zero is written as 0.0, because SQLite stores it so.
    """
    return _ENCODER.encode([value if type(value) in _SCALARS else _value(value) for value in values])


def digest_of(values: Iterable[Any]) -> str:
    """Return the digest of values: the SHA-256, in hex, of their canonical form."""
    return sha256(canonical(values).encode()).hexdigest()


def step_digest(row: Mapping[Any, Any], images: Iterable[Mapping[Any, Any]]) -> str:
    """Return the digest of a row of ``step`` with its messages, and of its rows of ``step_image``."""
    values = [row.get(name) for name in _STEP]
    values += [image.get(name) for image in images for name in _STEP_IMAGE]
    return _row_digest(values, row["messages"])


def partial_turn_digest(row: Mapping[Any, Any]) -> str:
    """Return the digest of a row of ``partial_turn`` with its messages."""
    return _row_digest([row.get(name) for name in _PARTIAL], row["messages"])


def content_digest(
    steps: Mapping[int, str],
    partial: Mapping[int, str],
    message_images: Iterable[Mapping[Any, Any]] = (),
    final_images: Mapping[int, str] = MappingProxyType({}),
) -> str:
    """Return the content digest of a trajectory.

    Args:
        steps: the digests of its steps by ``idx``.
        partial: the digests of its partial turns by ``idx``.
        message_images: its rows of ``message_image``, in the order of their messages.
        final_images: the hashes of the images of the end by ``idx``.
    """
    parts = [[[idx, rows[idx]] for idx in sorted(rows)] for rows in (steps, partial, final_images)]
    shown = [[image.get(name) for name in _MESSAGE_IMAGE] for image in message_images]
    return digest_of([*parts, shown])


def _row_digest(values: Sequence[Any], messages: bytes | None) -> str:
    return sha256(canonical(values).encode() + b"\n" + (messages or b"")).digest()[:ROW_BYTES].hex()


def _value(value: Any) -> Any:
    return value + 0.0 if type(value) is float else _document(value)


def _document(value: Any) -> Any:
    if isinstance(value, dict | Mapping):
        return {str(key): _document(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_document(item) for item in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _number(value)
    return _document(value.tolist()) if hasattr(value, "tolist") else value


def _text(value: Any) -> str:
    """Return a value that JSON does not have as text."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        return time_text(value)
    if isinstance(value, UUID):
        return value.hex
    raise TypeError(f"{value!r} ({type(value).__name__}) has no digest")


def _number(value: float) -> float | str | None:
    if isinstance(value, int) and abs(value) > _EXACT:
        return str(int(value))
    number = float(value) + 0.0
    if number - number != 0:
        return None
    return number if abs(number) <= _EXACT else str(int(Decimal(repr(number))))


_EXACT = 2**53
"""Above this number a float is whole. JSONB returns its decimal digits, as an integer."""
_SCALARS = frozenset({str, int, bool, type(None), bytes, datetime, UUID})
"""Types of columns whose values are written as they are."""
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=_text, check_circular=False)
"""Made once: ``json.dumps`` makes an encoder per call."""


SEALED = (
    *("id", "status", "reward", "success", "error", "stop_reason", "reached", "ended_by", "extras", "n_steps"),
    *("n_tokens", "min_version", "max_version", "pruned_at"),
    *("final_observation", "final_observation_blob", "final_observation_hash"),
)
"""The columns of a trajectory that its seal covers: its id, those that its end writes except the time, and the time of
its pruning."""
_sealed = itemgetter(*SEALED)


def seal(row: Mapping[Any, Any], content: str) -> str:
    """Return the seal of a trajectory that has ended, by its row and its content digest."""
    return digest_of([*_sealed(row), content])
