"""The screenshots of a guest, which a page or a program that took over its screen can replace by any bytes."""

from typing import Any

import numpy as np

from ..spaces import Png


def black(width: int, height: int) -> Png:
    """Return a black picture."""
    return Png.encode(np.zeros((height, width, 3), np.uint8))


def checked(data: bytes, width: int, height: int) -> tuple[Png, Any]:
    """Return the picture of a screen as a file and as an image of Pillow; a black one if the data is no whole picture
    of this size.

    A policy must be able to read every screenshot: a picture that cannot be decoded would end the episode as a failure
    of the engine, which no success rate counts, and an agent could cause it to avoid a loss.
    """
    try:
        png = Png(data)
        if (png.width, png.height) == (width, height):
            return png, png.decoded()
    except (ValueError, OSError):
        pass
    png = black(width, height)
    return png, png.decoded()
