"""Observations in the two forms that leave an environment: text with PNG images for the policy, a hash for replay.

The hash covers the normalized text and the pixels, not the PNG, so it does not depend on this machine's compressor.
"""

import hashlib
import struct
import zlib
from typing import Any

import numpy as np

from ..base import Image, Obs, TurnEnv
from ..errors import EnvironmentBroken

MAX_OBSERVATION_BYTES = 8 * 2**20
"""Limit of the text in UTF-8 and the pixels together; also of the system prompt."""


def parts(observation: Any) -> tuple[str, Image | None]:
    """Return the checked text and image of an observation.

    Raises:
        EnvironmentBroken: the type is not allowed, or the size is above ``MAX_OBSERVATION_BYTES``.
    """
    if isinstance(observation, str):
        return _text(observation, "observation"), None
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


def instructions(env: TurnEnv) -> str:
    """Return the checked system prompt of an environment.

    Raises:
        EnvironmentBroken: the type is not str, or the size is above ``MAX_OBSERVATION_BYTES``.
    """
    text: Any = env.instructions()
    if not isinstance(text, str):
        raise EnvironmentBroken(f"instructions() returned {type(text).__name__}, not str")
    return _text(text, "the text of instructions()")


def _text(text: str, name: str) -> str:
    # len() counts characters, at most four bytes each: only long texts pay for the exact count.
    if len(text) * 4 > MAX_OBSERVATION_BYTES:
        _bound(len(text.encode(errors="replace")), name)
    return _storable(text)


def _storable(text: str) -> str:
    """Replace what no database stores: lone surrogates and NUL."""
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


def _bound(size: int, name: str = "observation") -> None:
    if size > MAX_OBSERVATION_BYTES:
        raise EnvironmentBroken(f"{name} has {size} bytes; the limit is {MAX_OBSERVATION_BYTES}")


def png(image: Image) -> bytes:
    """Encode an image as PNG, without an imaging library."""
    height, width, _ = image.shape
    rows = np.zeros((height, 1 + width * 3), np.uint8)
    rows[:, 1:] = image.reshape(height, width * 3)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(rows.tobytes(), 6)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def split(observation: Obs) -> tuple[str, list[bytes]]:
    """Return the text, and the images as PNG.

    Raises:
        EnvironmentBroken: the type is not allowed, or the observation is too large.
    """
    text, image = parts(observation)
    return text, [] if image is None else [png(image)]


def observation_hash(env: TurnEnv, observation: Obs) -> str:
    """Return 32 hex digits of the SHA-256 of the normalized observation.

    Raises:
        EnvironmentBroken: the type is not allowed, or the observation is too large.
    """
    text, image = parts(env.normalize(observation))
    digest = hashlib.sha256(text.encode())
    if image is not None:
        digest.update(f"\0{image.shape}".encode() + np.ascontiguousarray(image).tobytes())
    return digest.hexdigest()[:32]
