"""A PNG file as every part reads it: one header, and RGB of 8 bits per channel, on white."""

from typing import Any

BIT_DEPTH = 24
"""Place of the bits per channel among the bytes of a file."""
BITS_MAX = 8
SIGNATURE_BYTES, CHUNK_BYTES = 8, 12
"""Length of the signature, and of a chunk without its content: length, name and checksum."""


def has_second_header(content: bytes) -> bool:
    """Return whether a PNG file has a second header: a size is read from the first one, and Pillow takes the last."""
    place, headers = SIGNATURE_BYTES, 0
    while place < len(content) and headers < 2:
        headers += content[place + 4 : place + 8] == b"IHDR"
        place += CHUNK_BYTES + int.from_bytes(content[place : place + 4], "big")
    return headers > 1


def is_deep(content: bytes) -> bool:
    """Return whether a file has 16 bits per channel, which Pillow would cut silently."""
    return len(content) > BIT_DEPTH and content[BIT_DEPTH] > BITS_MAX


def on_white(image: Any) -> Any:
    """Return an image of Pillow as RGB. White is behind its transparent parts, whose own colors are not shown."""
    from PIL import Image

    if not image.has_transparency_data:
        return image.convert("RGB")
    white = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(white, image.convert("RGBA")).convert("RGB")
