"""The colors of a PNG file as every part reads them: RGB of 8 bits per channel, on white."""

from typing import Any

BIT_DEPTH = 24
"""Place of the bits per channel among the bytes of a file."""
BITS_MAX = 8


def is_deep(content: bytes) -> bool:
    """Return whether a file has 16 bits per channel, which Pillow would cut without a word."""
    return len(content) > BIT_DEPTH and content[BIT_DEPTH] > BITS_MAX


def on_white(image: Any) -> Any:
    """Return an image of Pillow as RGB. White is behind its transparent parts, whose colors nobody sees."""
    from PIL import Image

    if not image.has_transparency_data:
        return image.convert("RGB")
    white = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(white, image.convert("RGBA")).convert("RGB")
