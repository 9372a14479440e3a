"""Named arrays of numbers as bytes, for details that no query reads.

One byte with the version of the format (1), then a zlib stream of one record per array:

* length of the name (1 byte), and the name in ASCII;
* the type (2 ASCII characters): ``u1``, ``i4``, ``f2``, ``f4`` or ``f8``, as in numpy, little-endian;
* the number of values (4 bytes, little-endian), and the values.
"""

import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .compression import inflate

VERSION = 1
TYPES = frozenset({"u1", "i4", "f2", "f4", "f8"})
"""The types of values, as numpy names them."""
_COUNT = struct.Struct("<I")


def pack(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return one-dimensional arrays as bytes; ``unpack`` reverses it.

    Raises:
        ValueError: an array has another type than those of ``TYPES``, or more than one dimension.
    """
    parts: list[bytes] = []
    for name, values in arrays.items():
        kind = values.dtype.str[1:]
        if kind not in TYPES or values.ndim != 1:
            raise ValueError(f"array `{name}` cannot be packed: it has type {values.dtype}, {values.ndim} dimensions")
        text = name.encode("ascii")
        little = values.astype("<" + kind, copy=False)
        parts += [bytes([len(text)]), text, kind.encode(), _COUNT.pack(len(values)), little.tobytes()]
    return bytes([VERSION]) + zlib.compress(b"".join(parts), 9)


def unpack(data: bytes) -> dict[str, NDArray[Any]]:
    """Return the arrays that ``pack`` received, read-only.

    Raises:
        ValueError: ``data`` has another version, or was altered.
    """
    if data[:1] != bytes([VERSION]):
        raise ValueError(f"arrays of format version {data[0] if data else 'none'}: this turnwise reads {VERSION}")
    content = inflate(data[1:])
    found: dict[str, NDArray[Any]] = {}
    at = 0
    try:
        while at < len(content):
            size = content[at]
            name = content[at + 1 : at + 1 + size].decode("ascii")
            at += 1 + size
            kind = content[at : at + 2].decode("ascii")
            if kind not in TYPES:
                raise ValueError(f"packed arrays were altered: unknown type {kind!r}")
            at += 2
            (count,) = _COUNT.unpack_from(content, at)
            at += _COUNT.size
            found[name] = np.frombuffer(content, "<" + kind, count, at)
            at += found[name].nbytes
    except (struct.error, IndexError) as error:
        raise ValueError(f"packed arrays were altered: {error}") from error
    return found
