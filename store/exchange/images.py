"""The images of a file: the format by the first bytes, and whether the content can be decoded."""

import warnings
from io import BytesIO
from typing import Literal

ImageType = Literal["image/jpeg", "image/png", "image/gif", "image/webp"]
SUFFIXES: dict[ImageType | None, str] = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/webp": ".webp",
}
"""The suffixes of the names of files, by media type."""
_BEGINNINGS: dict[bytes, ImageType] = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
}
FORMATS = ("PNG", "JPEG", "GIF", "WEBP")
MAX_PIXELS = 2**25
"""Limit of one image: 134 MB of decoded pixels. A screenshot of 4K has 2²³ pixels."""


def image_type(data: bytes) -> ImageType | None:
    """Return the media type of an image by its first bytes; None if it is not of a known format."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for beginning, kind in _BEGINNINGS.items() if data.startswith(beginning)), None)


def image_problem(data: bytes) -> str | None:
    """Return why ``data`` is not an image that can be decoded; None if it is one."""
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of sizes, which are compared below, and of odd metadata
            with Image.open(BytesIO(data), formats=FORMATS) as image:
                if image.width * image.height > MAX_PIXELS:
                    raise Image.DecompressionBombError
                image.load()
    except UnidentifiedImageError:
        return "is neither PNG, JPEG, GIF nor WebP, or its beginning is damaged"
    except Image.DecompressionBombError:
        return f"has more than {MAX_PIXELS:,} pixels, which are the limit"
    except Exception as error:  # noqa: BLE001 - a damaged file raises errors of many types
        return f"cannot be decoded: {error}"
    return None
