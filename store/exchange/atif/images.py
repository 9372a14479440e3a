"""Images of an episode as files in a folder, named by hash and format."""

import os
from pathlib import Path

from ....user_files import UnreadableFile, read_regular_file
from ...content.blobs import digest
from ...errors import ExchangeError
from .models import ImageType

FOLDER = "images"
MAX_BYTES = 64 * 2**20
"""Limit of one imported image."""
_SUFFIXES: dict[ImageType, str] = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/webp": ".webp",
}
_BEGINNINGS: dict[bytes, ImageType] = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
}


def image_type(data: bytes) -> ImageType | None:
    """Return the media type of an image by its first bytes; None if it is not of a known format."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for beginning, kind in _BEGINNINGS.items() if data.startswith(beginning)), None)


def write_image(folder: Path, data: bytes) -> tuple[ImageType, str]:
    """Write an image once below ``folder``, and return its media type and its path in ``folder``.

    Raises:
        ExchangeError: the format is unknown.
    """
    kind = image_type(data)
    if kind is None:
        raise ExchangeError("an image is neither PNG, JPEG, GIF nor WebP: export with `--no-images`")
    name = f"{FOLDER}/{digest(data)}{_SUFFIXES[kind]}"
    path = folder / name
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    return kind, name


def read_image(folder: Path, name: str) -> bytes:
    """Return the content of the file ``name`` in ``folder`` or below it, which need not be an image.

    Raises:
        ExchangeError: the path leaves the folder, or names no regular file of at most ``MAX_BYTES``.
    """
    if "\x00" in name:
        raise ExchangeError(f"the image {name!r} cannot be read: a path has no NUL character")
    path = os.path.realpath(folder / name)
    if not Path(path).is_relative_to(folder.resolve()):
        raise ExchangeError(f"the image `{name}` is outside of the folder of its document; copy it into the folder")
    try:
        return read_regular_file(path, MAX_BYTES)
    except UnreadableFile as error:
        raise ExchangeError(f"the image {error}") from error
