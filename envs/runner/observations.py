"""Observations in the two forms that leave an environment: text with PNG images for the policy, a hash for replay.

The hash covers the normalized text and the image in the form that the environment returned: the pixels of an array, so
that the hash does not depend on this machine's compressor, or the bytes of a ``Png``, which the environment made.
"""

import hashlib
from typing import Any

import numpy as np

from ...errors import shown
from ..base import Image, Obs, TurnEnv
from ..errors import EnvironmentBroken
from ..spaces import Png

MAX_OBSERVATION_BYTES = 8 * 2**20
"""Limit of the text in UTF-8 and the image together, both of its pixels and of its file; also of the system prompt."""


def parts(observation: Any) -> tuple[str, Image | Png | None]:
    """Return the checked text and image of an observation.

    Raises:
        EnvironmentBroken: the type is not allowed, or the size is above ``MAX_OBSERVATION_BYTES``.
    """
    if isinstance(observation, str):
        return _text(observation, "observation"), None
    if isinstance(observation, np.ndarray | Png):
        return "", _image(observation)
    if isinstance(observation, dict) and set(observation) == {"text", "image"}:
        text, image = observation["text"], _image(observation["image"])
        if not isinstance(text, str):
            raise EnvironmentBroken(f"observation['text'] is {type(text).__name__}, not str")
        _bound(len(text.encode(errors="replace")) + _size(image))
        return _storable(text), image
    keys = f" with keys {sorted(map(str, observation))}" if isinstance(observation, dict) else ""
    raise EnvironmentBroken(
        f"observation is {type(observation).__name__}{keys}; it must be str, an image (a `Png`, or a uint8 array of "
        "height x width x 3), or {'text': str, 'image': image}"
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


def _image(value: Any) -> Image | Png:
    if isinstance(value, Png):
        _bound(_size(value))
        return value
    if not isinstance(value, np.ndarray) or value.dtype != np.uint8 or value.ndim != 3 or value.shape[2] != 3:
        shape = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
        if isinstance(value, np.ndarray) and value.ndim < 2:
            raise EnvironmentBroken(
                f"an observation is {shape}, neither a text nor an image: wrap the environment, and return a text"
            )
        raise EnvironmentBroken(f"image observation is {shape}; it must be a `Png`, or uint8 of height x width x 3")
    if value.size == 0:
        raise EnvironmentBroken(f"image observation of shape {value.shape} has no pixels")
    _bound(value.nbytes)
    return value


def _size(image: Image | Png) -> int:
    """Return the bytes of an image: of its pixels, or of its file if that is larger."""
    return max(len(image), image.width * image.height * 3) if isinstance(image, Png) else image.nbytes


def _bound(size: int, name: str = "observation") -> None:
    if size > MAX_OBSERVATION_BYTES:
        raise EnvironmentBroken(f"{name} has {size} bytes; the limit is {MAX_OBSERVATION_BYTES}")


def split(observation: Obs) -> tuple[str, list[bytes]]:
    """Return the text, and the images as PNG.

    Raises:
        EnvironmentBroken: the type is not allowed, or the observation is too large.
    """
    text, image = parts(observation)
    return text, [] if image is None else [png(image)]


def png(image: Image | Png) -> Png:
    """Return an image as a PNG file; a file as it is."""
    return image if isinstance(image, Png) else Png.encode(image)


def picture(image: Any) -> Png | None:
    """Return what ``TurnEnv.screenshot`` returned, checked, as a PNG file; None for none.

    Raises:
        EnvironmentBroken: it is not an image, or larger than ``MAX_OBSERVATION_BYTES``.
    """
    return None if image is None else png(_image(image))


def observation_hash(env: TurnEnv, observation: Obs) -> str:
    """Return 32 hex digits of the SHA-256 of the normalized observation.

    Raises:
        EnvironmentBroken: the type is not allowed, or the observation is too large.
    """
    normalized = env.normalize(observation)
    try:
        text, image = parts(normalized)
    except EnvironmentBroken as error:
        raise EnvironmentBroken(f"normalize() of {type(env).__name__} returned {shown(normalized)}: {error}") from error
    digest = hashlib.sha256(text.encode())
    if isinstance(image, Png):
        digest.update(b"\0png" + image)
    elif image is not None:
        digest.update(f"\0{image.shape}".encode() + np.ascontiguousarray(image).tobytes())
    return digest.hexdigest()[:32]
