"""Frame codec of the connection between host and guest agent.

A frame is two unsigned 32-bit lengths in network byte order, a header (a JSON object) and a payload (raw bytes).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

LENGTHS = struct.Struct("!II")
"""Lengths of header and payload in bytes."""
WINDOW_BYTES = 128 << 10
"""Bytes of one direction of a stream that may wait for their receiver."""
TOKEN_VARIABLE = "TURNWISE_TOKEN"  # noqa: S105 - a name
"""Environment variable of the guest agent with the token of a TCP connection."""


def encode(header: dict[str, Any], payload: bytes = b"") -> bytes:
    """Return one whole frame."""
    return encode_start(header, len(payload)) + payload


def encode_start(header: dict[str, Any], payload_bytes: int) -> bytes:
    """Return a frame without its payload, which must follow."""
    head = json.dumps(header).encode()
    return LENGTHS.pack(len(head), payload_bytes) + head


def decode_lengths(prefix: bytes) -> tuple[int, int]:
    """Return the lengths of header and payload; ``prefix`` has ``LENGTHS.size`` bytes."""
    header_bytes, payload_bytes = LENGTHS.unpack(prefix)
    return header_bytes, payload_bytes


def decode_header(data: bytes) -> dict[str, Any]:
    """Return the header. Raises ValueError: ``data`` is not a JSON object."""
    header = json.loads(data)
    if not isinstance(header, dict):
        raise ValueError("the header of a frame must be a JSON object")
    return header


def take_frames(
    received: bytearray, header_max_bytes: int = 1 << 32, payload_max_bytes: int = 1 << 32
) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Remove every whole frame from the front of ``received`` and yield its header and payload.

    Raises:
        ValueError: a frame is malformed or larger than allowed.
    """
    while len(received) >= LENGTHS.size:
        header_bytes, payload_bytes = decode_lengths(bytes(received[: LENGTHS.size]))
        if header_bytes > header_max_bytes or payload_bytes > payload_max_bytes:
            raise ValueError(f"a frame of {header_bytes} and {payload_bytes} bytes exceeds the limits")
        middle = LENGTHS.size + header_bytes
        end = middle + payload_bytes
        if len(received) < end:
            return
        with memoryview(received) as view:
            header, payload = bytes(view[LENGTHS.size : middle]), bytes(view[middle:end])
        del received[:end]
        yield decode_header(header), payload
