"""The screenshots of a guest, which a page or a program that took over its screen can replace by any bytes."""

from typing import Any

import numpy as np

from ...spaces import Png


def black(width: int, height: int) -> Png:
    """Return a black picture."""
    return Png.encode(np.zeros((height, width, 3), np.uint8))


def of_size(data: bytes, width: int, height: int) -> Png:
    """Return the file of a picture of this size, not decoded; a black one if the data is no such file."""
    try:
        png = Png(data)
    except ValueError:
        return black(width, height)
    return png if (png.width, png.height) == (width, height) else black(width, height)


def checked(data: bytes, width: int, height: int) -> tuple[Png, Any]:
    """Return the picture of a screen as ``of_size`` does and as an image of Pillow; a black one if it is damaged.

    A policy must be able to read every screenshot: a picture that cannot be decoded would end the episode as a failure
    of the engine, which no success rate counts, and an agent could cause it to avoid a loss.
    """
    png = of_size(data, width, height)
    try:
        return png, png.decoded()
    except OSError:
        png = black(width, height)
        return png, png.decoded()
