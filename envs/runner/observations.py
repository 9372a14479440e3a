"""Observations as what the policy is given (text, PNG images) and as what replay compares (a hash).

The hash covers the normalized text and the pixels, not the PNG: it does not depend on how a compressor of this
machine packs them.
"""

import hashlib
import struct
import zlib
from typing import Any

import numpy as np

from ..base import Image, Obs, TurnEnv
from ..errors import EnvironmentBroken

MAX_OBSERVATION_BYTES = 8 * 2**20
"""Text in UTF-8 and pixels together."""


def parts(observation: Any) -> tuple[str, Image | None]:
    """Text and image of an observation, checked.

    Raises:
        EnvironmentBroken: of no allowed type, or above ``MAX_OBSERVATION_BYTES``.
    """
    if isinstance(observation, str):
        # len() counts characters, at most four bytes each: only long texts pay for the exact count.
        if len(observation) * 4 > MAX_OBSERVATION_BYTES:
            _bound(len(observation.encode(errors="replace")))
        return _storable(observation), None
    if isinstance(observation, np.ndarray):
        return "", _image(observation)
    if isinstance(observation, dict) and set(observation) == {"text", "image"}:
        text, image = observation["text"], _image(observation["image"])
        if not isinstance(text, str):
            raise EnvironmentBroken(f"observation['text'] is {type(text).__name__}, not str")
        _bound(len(text.encode(errors="replace")) + image.nbytes)
        return _storable(text), image
    keys = f" with keys {sorted(map(str, observation))}" if isinstance(observation, dict) else ""
    raise EnvironmentBroken(
        f"observation is {type(observation).__name__}{keys}; it must be str, a uint8 image of height x width x 3, "
        "or {'text': str, 'image': image}"
    )


def _storable(text: str) -> str:
    """The text without what no database takes: lone surrogates and NUL."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode(errors="replace").decode().replace("\0", "\ufffd")


def _image(value: Any) -> Image:
    if not isinstance(value, np.ndarray) or value.dtype != np.uint8 or value.ndim != 3 or value.shape[2] != 3:
        shape = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
        raise EnvironmentBroken(f"image observation is {shape}; it must be uint8 of height x width x 3")
    if value.size == 0:
        raise EnvironmentBroken(f"image observation of shape {value.shape} has no pixels")
    _bound(value.nbytes)
    return value


def _bound(size: int) -> None:
    if size > MAX_OBSERVATION_BYTES:
        raise EnvironmentBroken(f"observation of {size} bytes; at most {MAX_OBSERVATION_BYTES} are allowed")


def png(image: Image) -> bytes:
    """The image as PNG, without any imaging library."""
    height, width, _ = image.shape
    rows = np.zeros((height, 1 + width * 3), np.uint8)
    rows[:, 1:] = image.reshape(height, width * 3)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(rows.tobytes(), 6)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def split(observation: Obs) -> tuple[str, list[bytes]]:
    """The text, and the images as PNG.

    Raises:
        EnvironmentBroken: of no allowed type, or too large.
    """
    text, image = parts(observation)
    return text, [] if image is None else [png(image)]


def observation_hash(env: TurnEnv, observation: Obs) -> str:
    """Thirty-two hex digits of the normalized observation's SHA-256.

    Raises:
        EnvironmentBroken: of no allowed type, or too large.
    """
    text, image = parts(env.normalize(observation))
    digest = hashlib.sha256(text.encode())
    if image is not None:
        digest.update(f"\0{image.shape}".encode() + np.ascontiguousarray(image).tobytes())
    return digest.hexdigest()[:32]
