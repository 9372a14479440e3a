"""Pictures for policies that read images."""

import io

import numpy as np
from PIL import Image


def png(width: int, height: int, seed: int = 0) -> bytes:
    """Return a picture of noise."""
    noise = np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).save(buffer, "PNG")
    return buffer.getvalue()
