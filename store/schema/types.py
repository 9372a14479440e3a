"""The metadata of the tables, and column types that mean the same on SQLite and PostgreSQL.

Timestamps are UTC and aware. Text that a policy wrote may contain NUL, which PostgreSQL cannot store, or lone
surrogates, which UTF-8 cannot encode: ``ExactText`` escapes both reversibly, so that an action replays exactly.
"""

import json
import math
import os
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import JSON, Column, DateTime, Dialect, Identity, Integer, LargeBinary, MetaData, Text, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.types import TypeDecorator

_ESCAPE = "\x1a"
_UNSAFE = re.compile("[\x00\x1a\ud800-\udfff]")
_ESCAPED = re.compile(_ESCAPE + "([0-9a-f]{4})")
_UNSAFE_JSON = re.compile(r"\\u(?:0000|001a|d[89a-f])")
"""May also match an escaped backslash followed by such letters, which costs time only."""


def utc_now() -> datetime:
    """Return the current time, aware, in UTC."""
    return datetime.now(UTC)


def time_text(time: datetime) -> str:
    """Return a time as text in UTC: ``2026-01-02 03:04:05.000006+00:00``."""
    return time.astimezone(UTC).isoformat(" ", "microseconds")


def flag_text(value: bool) -> str:
    """Return a flag as text, which both databases store as a flag: ``sqlite3`` searches an adapter for each bool."""
    return "1" if value else "0"


def escape(text: str) -> str:
    """Return ``text`` in a form that every database can store; ``unescape`` reverses it."""
    if text.isascii() and "\x00" not in text and _ESCAPE not in text:
        return text
    return _UNSAFE.sub(lambda found: f"{_ESCAPE}{ord(found[0]):04x}", text)


def unescape(text: str) -> str:
    """Return the text that ``escape`` received."""
    if _ESCAPE not in text:
        return text
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)


class ExactText(TypeDecorator[str]):
    """Any Python string, returned exactly as it was stored."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else escape(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else unescape(value)


class Hash(TypeDecorator[str]):
    """A hash: hex digits in Python, half as many bytes in the database."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> bytes | None:
        return None if value is None else bytes.fromhex(value)

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> str | None:
        return None if value is None else _as_bytes(value).hex()


class Content(LargeBinary):
    """Bytes. Text, which an edit of the SQLite file may leave, is read as bytes too, so that the hash reveals it."""

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], bytes | None]:
        return lambda value: None if value is None else _as_bytes(value)


def _as_bytes(value: Any) -> bytes:
    if type(value) is bytes:
        return value
    return str(value).encode(errors="surrogatepass") if isinstance(value, str | int | float) else bytes(value)


class UtcDateTime(TypeDecorator[datetime]):
    """An aware datetime, stored in UTC. A naive one raises ValueError."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"a naive datetime ({value}) cannot be stored; add its time zone")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def _plain(value: Any) -> Any:
    """Return a numpy or torch scalar as a Python number, and an array or tensor as nested lists of its shape."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{value!r} ({type(value).__name__}) cannot be written as JSON")


def _finite(value: Any) -> Any:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def dump_json(value: Any) -> str:
    """Return ``value`` as strict JSON that every database can store; ``load_json`` reverses it.

    A number that is not finite becomes null, since JSON has no such numbers. Strings are escaped as ``ExactText`` is:
    PostgreSQL's JSONB can store neither NUL nor a lone surrogate.
    """
    try:
        text = json.dumps(value, allow_nan=False, default=_plain, separators=(",", ":"))
    except ValueError:
        text = json.dumps(_finite(value), allow_nan=False, default=_plain, separators=(",", ":"))
    if _UNSAFE_JSON.search(text):
        return json.dumps(_strings(json.loads(text), escape), separators=(",", ":"))
    return text


def load_json(data: str | bytes) -> Any:
    """Return the value that ``dump_json`` received, with arrays as lists and keys as strings.

    Text that is not JSON, which an edit by hand may leave, is returned unchanged: a digest of the row reveals it.
    """
    text = data if isinstance(data, str) else bytes(data).decode(errors="replace")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return _strings(value, unescape) if _ESCAPE in text or "\\u001a" in text else value


def _strings(value: Any, change: Callable[[str], str]) -> Any:
    """Return a JSON value with every string and key changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): _strings(item, change) for key, item in value.items()}
    return [_strings(item, change) for item in value] if isinstance(value, list) else value


def uuid7() -> UUID:
    """Return a UUID of version 7 (RFC 9562): 48 bits of milliseconds since 1970, then 74 random bits."""
    return UUID(uuid7_digits())


def uuid7_digits() -> str:
    """Return the 32 hex digits of a new ``uuid7``."""
    random = int.from_bytes(os.urandom(10), "big")
    milliseconds = time.time_ns() // 1_000_000
    value = (milliseconds << 80) | (0x7 << 76) | ((random >> 68 & 0xFFF) << 64) | (0x2 << 62) | (random & (2**62 - 1))
    return f"{value:032x}"


metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

Document = JSON().with_variant(postgresql.JSONB(), "postgresql")
"""A JSON value; a missing one is the JSON value null."""
OptionalDocument = JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")
"""A JSON value; a missing one is NULL."""
Number = Integer
"""A surrogate key, of 4 bytes: the rows and indexes that grow with every turn hold it."""


def number() -> Column[int]:
    """Return the column ``no``: a surrogate key that the database counts up."""
    return Column("no", Number, Identity(always=False), primary_key=True)


def surviving(condition: str = "") -> dict[str, Any]:
    """Return the condition of a partial index over rows that no resume abandoned.

    SQLite uses such an index only for a query whose condition is written in the same way.
    """
    also = f"{condition} AND " if condition else ""
    sqlite_also = f"{condition} = 1 AND " if condition else ""
    return {"sqlite_where": text(f"{sqlite_also}abandoned = 0"), "postgresql_where": text(f"{also}NOT abandoned")}


def where(condition: str) -> dict[str, Any]:
    return {"sqlite_where": text(condition), "postgresql_where": text(condition)}
