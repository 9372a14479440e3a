"""Whether content of a file is an image: by decoding it, up to a limit on its pixels."""

import warnings
from io import BytesIO

from ..errors import MissingPackage

FORMATS = ("PNG", "JPEG", "GIF", "WEBP")
MAX_PIXELS = 2**25
"""Limit of one image: 134 MB of decoded pixels. A screenshot of 4K has 2²³ pixels."""


def image_problem(data: bytes) -> str | None:
    """Return why ``data`` is not an image that can be decoded; None if it is one.

    Raises:
        MissingPackage: Pillow is not installed.
    """
    try:
        from PIL import Image, UnidentifiedImageError
    except ModuleNotFoundError as error:
        raise MissingPackage(
            'the check of images needs Pillow, which is not installed: run `pip install "turnwise[exchange]"`'
        ) from error
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
