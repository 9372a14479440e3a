"""Columns of Parquet for the fields of a record, derived from the types of the fields: every field is a column.

A mapping is a column of JSON text. A text that Arrow cannot hold (lone surrogates) is escaped as in the database.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints
from uuid import UUID

import numpy as np
from pydantic_core import from_json

from ..errors import MissingPackage
from ..schema.types import dump_json, escape, load_json, unescape

TOKEN_COLUMNS = {"tokens": np.int32, "mask": np.uint8, "logprobs": np.float32, "versions": np.int32, "sent": np.int32}
"""The dtypes of the fields with one value per token."""
LEFT_OUT = frozenset({"trajectories"})
"""Fields that another row holds."""


@dataclass(frozen=True, slots=True)
class Codec:
    """How one type of a field is stored: its Arrow type, and the conversions to and from plain values."""

    type: Any
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


def arrow() -> Any:
    """Return the module ``pyarrow``. Raises MissingPackage: it is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise MissingPackage(
            'Parquet needs pyarrow, which is not installed: run `pip install "turnwise[exchange]"`'
        ) from error
    return pyarrow


@cache
def record_columns(kind: type) -> dict[str, Codec]:
    """Return the codec of each field of a dataclass, in the order of the fields.

    Raises:
        TypeError: a field has a type without a codec.
    """
    hints = get_type_hints(kind)
    return {field.name: codec_of(field.name, hints[field.name]) for field in fields(kind) if field.name not in LEFT_OUT}


def struct_codec(kind: type) -> Codec:
    """Return the codec of a dataclass as one value with a member per field."""
    pa, columns = arrow(), record_columns(kind)
    return Codec(
        pa.struct([(name, codec.type) for name, codec in columns.items()]),
        lambda record: {name: codec.encode(getattr(record, name)) for name, codec in columns.items()},
        lambda value: kind(**{name: codec.decode(value[name]) for name, codec in columns.items()}),
    )


def codec_of(name: str, hint: Any) -> Codec:
    """Return the codec of a field by its name and type. Raises TypeError: the type has no column."""
    pa = arrow()
    if name in TOKEN_COLUMNS:
        return _array(TOKEN_COLUMNS[name], optional=NoneType in get_args(hint))
    if get_origin(hint) in (Union, UnionType):
        (inner,) = [one for one in get_args(hint) if one is not NoneType]
        return _optional(codec_of(name, inner))
    simple = {bool: pa.bool_(), int: pa.int64(), float: pa.float64()}
    if hint in simple:
        return Codec(simple[hint], hint, present)
    if hint is str:
        return Codec(pa.string(), escape, unescape)
    if hint is bytes:
        return Codec(pa.binary(), _same, bytes)
    if hint is UUID:
        return Codec(pa.string(), str, UUID)
    if hint is datetime:
        return Codec(pa.timestamp("us", tz="UTC"), _same, lambda value: value.astimezone(UTC))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return Codec(pa.string(), lambda value: value.value, hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return struct_codec(hint)
    if get_origin(hint) is Mapping or hint is Any:
        return Codec(pa.string(), dump_json, _load_json)
    if get_origin(hint) is Sequence:
        (item,) = get_args(hint)
        if item is Any or get_origin(item) is Mapping:
            return Codec(pa.string(), dump_json, _load_json)
        return _list(codec_of(name, item))
    raise TypeError(f"the field `{name}` of type {hint} has no column; add its type to `store/exchange/columns.py`")


def present(value: Any) -> Any:
    """Return ``value``. Raises ValueError: it is null."""
    if value is None:
        raise ValueError("a value is null where none may be missing")
    return value


def _load_json(text: str) -> Any:
    """Return a JSON value. Raises ValueError: the text is not JSON, or its nesting is too deep."""
    from_json(text)
    return load_json(text)


def _same(value: Any) -> Any:
    return value


def _optional(codec: Codec) -> Codec:
    return Codec(
        codec.type,
        lambda value: None if value is None else codec.encode(value),
        lambda value: None if value is None else codec.decode(value),
    )


def _list(codec: Codec) -> Codec:
    return Codec(
        arrow().list_(codec.type),
        lambda values: [codec.encode(value) for value in values],
        lambda values: tuple(codec.decode(value) for value in values),
    )


def _array(dtype: Any, *, optional: bool) -> Codec:
    codec = Codec(
        arrow().list_(arrow().from_numpy_dtype(dtype)),
        lambda values: np.asarray(values, dtype),
        lambda values: np.asarray(present(values), dtype),
    )
    return _optional(codec) if optional else codec
