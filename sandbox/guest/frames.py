"""Frame codec of the connection between host and guest agent.

A frame is two unsigned 32-bit lengths in network byte order, a header (a JSON object) and a payload (raw bytes).
"""

from __future__ import annotations

import json
import struct
from typing import Any

LENGTHS = struct.Struct("!II")
"""Lengths of header and payload in bytes."""


def encode(header: dict[str, Any], payload: bytes = b"") -> bytes:
    """Return one whole frame."""
    head = json.dumps(header).encode()
    return LENGTHS.pack(len(head), len(payload)) + head + payload


def decode_lengths(prefix: bytes) -> tuple[int, int]:
    """Return the lengths of header and payload; ``prefix`` has ``LENGTHS.size`` bytes."""
    header_bytes, payload_bytes = LENGTHS.unpack(prefix)
    return header_bytes, payload_bytes


def decode_header(data: bytes) -> dict[str, Any]:
    """Return the header.

    Raises:
        ValueError: ``data`` is not a JSON object.
    """
    header = json.loads(data)
    if not isinstance(header, dict):
        raise ValueError("the header of a frame must be a JSON object")
    return header
