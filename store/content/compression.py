"""Decompression with a bound: altered or imported bytes of a few KiB could otherwise fill the memory."""

import zlib

MAX_BYTES = 1 << 30
"""Size of a content that ``inflate`` accepts."""


def inflate(data: bytes) -> bytes:
    """Return the content of a zlib stream.

    Raises:
        ValueError: ``data`` is not one whole stream, or its content has more than ``MAX_BYTES``.
    """
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(data, MAX_BYTES + 1)
    except zlib.error as error:
        raise ValueError(f"the compressed stream was altered: {error}") from error
    if len(content) > MAX_BYTES:
        raise ValueError(f"the compressed stream holds more than {MAX_BYTES:,} bytes")
    if not stream.eof or stream.unused_data:
        raise ValueError("the compressed stream was altered: it has another length")
    return content
