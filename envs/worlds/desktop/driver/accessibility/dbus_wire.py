"""The wire format of D-Bus messages, as far as accessibility needs it: little endian, without file descriptors."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

METHOD_CALL, METHOD_RETURN, ERROR, SIGNAL = 1, 2, 3, 4
PATH, INTERFACE, MEMBER, ERROR_NAME, REPLY_SERIAL, DESTINATION, SENDER, SIGNATURE = 1, 2, 3, 4, 5, 6, 7, 8
NO_AUTO_START = 2
FIXED_HEADER_BYTES = 16
MAX_MESSAGE_BYTES = 64 << 20
ALIGNMENTS = {"y": 1, "b": 4, "n": 2, "q": 2, "i": 4, "u": 4, "x": 8, "t": 8, "d": 8}
ALIGNMENTS |= {"s": 4, "o": 4, "g": 1, "a": 4, "v": 1, "(": 8, "{": 8}
NUMBERS = {
    "y": struct.Struct("<B"),
    "b": struct.Struct("<I"),
    "n": struct.Struct("<h"),
    "q": struct.Struct("<H"),
    "i": struct.Struct("<i"),
    "u": struct.Struct("<I"),
    "x": struct.Struct("<q"),
    "t": struct.Struct("<Q"),
    "d": struct.Struct("<d"),
}
UINT = NUMBERS["u"]
FIXED_HEADER = struct.Struct("<BBBBIII")


def string(text: str) -> bytes:
    """Return a string or object path, without the padding before it."""
    data = text.encode(errors="replace")
    return UINT.pack(len(data)) + data + b"\0"


def body_of(signature: str, values: Sequence[Any]) -> bytes:
    """Return the body of a call; ``signature`` has only the types ``s o i u b``."""
    body = bytearray()
    for kind, value in zip(signature, values, strict=True):
        body += bytes(-len(body) % 4)
        body += string(value) if kind in "so" else NUMBERS[kind].pack(value)
    return bytes(body)


def call(serial: int, destination: str, path: str, interface: str, member: str, signature: str, body: bytes) -> bytes:
    """Return the message of a method call."""
    fields = bytearray()
    named = ((PATH, "o", path), (DESTINATION, "s", destination), (INTERFACE, "s", interface), (MEMBER, "s", member))
    for code, kind, value in named:
        fields += bytes(-len(fields) % 8)
        fields += bytes((code, 1)) + kind.encode() + b"\0" + string(value)
    if signature:
        fields += bytes(-len(fields) % 8)
        fields += bytes((SIGNATURE, 1)) + b"g\0" + bytes((len(signature),)) + signature.encode() + b"\0"
    header = FIXED_HEADER.pack(ord("l"), METHOD_CALL, NO_AUTO_START, 1, len(body), serial, len(fields)) + bytes(fields)
    return header + bytes(-len(header) % 8) + body


def message_bytes(header: bytes) -> int:
    """Return the length of the message that begins with these ``FIXED_HEADER_BYTES`` bytes.

    Raises:
        ValueError: the bytes are not the header of a message in little endian, or the message is too large.
    """
    order, _, _, _, body, _, fields = FIXED_HEADER.unpack_from(header)
    total = FIXED_HEADER_BYTES + fields + (-fields % 8) + body
    if order != ord("l") or total > MAX_MESSAGE_BYTES:
        raise ValueError("unreadable message on the accessibility bus")
    return int(total)


def parse(message: bytes) -> tuple[int, dict[int, Any], list[Any]]:
    """Return the type, the header fields by code, and the values of the body.

    Raises:
        ValueError: the message is malformed.
    """
    try:
        _, kind, _, _, _, _, length = FIXED_HEADER.unpack_from(message)
        fields = dict(reader("a(yv)")(message, 12, 0)[0])
        values: list[Any] = []
        at, signature = FIXED_HEADER_BYTES + length + (-length % 8), str(fields.get(SIGNATURE, ""))
        start = at
        while signature:
            first, signature = split(signature)
            value, at = reader(first)(message, at, start)
            values.append(value)
    except (struct.error, IndexError, KeyError, UnicodeDecodeError, RecursionError, TypeError) as error:
        raise ValueError(f"unreadable message on the accessibility bus: {error}") from None
    return kind, fields, values


def split(signature: str) -> tuple[str, str]:
    """Return the first complete type of a signature and the rest."""
    if signature[0] == "a":
        first, rest = split(signature[1:])
        return "a" + first, rest
    if signature[0] not in "({":
        return signature[0], signature[1:]
    depth = 0
    for index, letter in enumerate(signature):
        depth += (letter in "({") - (letter in ")}")
        if not depth:
            return signature[: index + 1], signature[index + 1 :]
    raise IndexError(signature)


Read = Callable[[bytes, int, int], tuple[Any, int]]
"""Reads a value of the data at an offset; alignment counts from another one. Returns the offset after it, too."""


def read(kind: str, data: bytes, at: int, start: int = 0) -> tuple[Any, int]:
    """Return the value of type ``kind`` at an offset, and the offset after it; alignment counts from ``start``."""
    return reader(kind)(data, at, start)


@lru_cache(maxsize=256)
def reader(kind: str) -> Read:
    """Return the function that reads values of one complete type; an observation has thousands of few types."""
    letter = kind[0]
    if letter in NUMBERS:
        return _number_reader(NUMBERS[letter])
    if letter == "a":
        return _array_reader(kind[1:])
    if letter in "({":
        return _structure_reader(kind[1:-1])
    return {"s": _string, "o": _string, "g": _signature, "v": _variant}[letter]


def _string(data: bytes, at: int, start: int) -> tuple[str, int]:
    at += -(at - start) % 4
    (length,) = UINT.unpack_from(data, at)
    return data[at + 4 : at + 4 + length].decode(errors="replace"), at + 5 + length


def _signature(data: bytes, at: int, start: int) -> tuple[str, int]:
    return data[at + 1 : at + 1 + data[at]].decode(), at + 2 + data[at]


def _variant(data: bytes, at: int, start: int) -> tuple[Any, int]:
    signature, at = _signature(data, at, start)
    return reader(signature)(data, at, start)


def _number_reader(number: struct.Struct) -> Read:
    unpack_from, size = number.unpack_from, number.size

    def read_number(data: bytes, at: int, start: int) -> tuple[Any, int]:
        at += -(at - start) % size
        return unpack_from(data, at)[0], at + size

    return read_number


def _array_reader(item: str) -> Read:
    read_item, alignment = reader(item), ALIGNMENTS[item[0]]

    def read_array(data: bytes, at: int, start: int) -> tuple[list[Any], int]:
        at += -(at - start) % 4
        (length,) = UINT.unpack_from(data, at)
        at += 4
        at += -(at - start) % alignment
        end = at + length
        values = []
        while at < end:
            value, at = read_item(data, at, start)
            values.append(value)
        return values, at

    return read_array


def _structure_reader(inner: str) -> Read:
    if not inner:
        raise IndexError("a structure without members")
    parts = []
    while inner:
        first, inner = split(inner)
        parts.append(reader(first))

    def read_structure(data: bytes, at: int, start: int) -> tuple[tuple[Any, ...], int]:
        at += -(at - start) % 8
        values = []
        for part in parts:
            value, at = part(data, at, start)
            values.append(value)
        return tuple(values), at

    return read_structure
