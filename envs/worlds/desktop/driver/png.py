"""Encode screens as PNG, incrementally: a strip of rows that did not change keeps its compressed bytes.

Every strip is a separate deflate stream between full flushes, in a separate IDAT chunk, so that chunks of different
times fit together. Level 1 without row filters is the fastest setting for flat user interfaces.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

STRIP_ROWS = 32
LEVEL = 1
ADLER_BASE = 65521
SIGNATURE = b"\x89PNG\r\n\x1a\n"
ZLIB_HEADER = b"\x78\x01"
LAST_BLOCK = b"\x03\x00"
"""An empty final block of deflate."""
RGB_8_BIT = (8, 2, 0, 0, 0)


@dataclass(frozen=True)
class Strip:
    """Some rows: their pixels, their IDAT chunk, and checksum and length of their uncompressed bytes."""

    pixels: bytes
    chunk: bytes
    adler: int
    length: int


class PngEncoder:
    """Encodes one screen after another, each ``width`` x ``height`` pixels."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.header = SIGNATURE + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, *RGB_8_BIT))
        self.strips: list[Strip | None] = [None] * -(-height // STRIP_ROWS)

    def encode(self, pixels: memoryview) -> bytes:
        """Return the PNG of a screen of 4 bytes per pixel: blue, green, red, unused."""
        size = STRIP_ROWS * self.width * 4
        adler, parts = 1, [self.header]
        for index, known in enumerate(self.strips):
            # Bytes compare faster than memory views do.
            part = bytes(pixels[index * size : (index + 1) * size])
            strip = known if known is not None and known.pixels == part else self._strip(part, index == 0)
            self.strips[index] = strip
            adler = combined_adler(adler, strip.adler, strip.length)
            parts.append(strip.chunk)
        parts += [chunk(b"IDAT", LAST_BLOCK + struct.pack(">I", adler)), chunk(b"IEND", b"")]
        return b"".join(parts)

    def _strip(self, pixels: bytes, first: bool) -> Strip:
        colors = bytearray(len(pixels) // 4 * 3)
        for channel in range(3):
            colors[channel::3] = pixels[2 - channel :: 4]
        row = self.width * 3
        rows = b"".join([b"\0" + colors[start : start + row] for start in range(0, len(colors), row)])
        packer = zlib.compressobj(LEVEL, zlib.DEFLATED, -15)
        data = packer.compress(rows) + packer.flush(zlib.Z_FULL_FLUSH)
        return Strip(pixels, chunk(b"IDAT", ZLIB_HEADER * first + data), zlib.adler32(rows), len(rows))


def chunk(kind: bytes, data: bytes) -> bytes:
    """Return one chunk of a PNG."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def combined_adler(first: int, second: int, second_length: int) -> int:
    """Return the Adler-32 checksum of two strings after one another, from the checksum of each."""
    low = ((first & 0xFFFF) + (second & 0xFFFF) - 1) % ADLER_BASE
    high = ((first >> 16) + (second >> 16) + second_length * ((first & 0xFFFF) - 1)) % ADLER_BASE
    return high << 16 | low
