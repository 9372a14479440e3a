"""The values of actions and observations beyond NumPy's, each with its Gymnasium space: free text, and PNG files.

Invariant: a space contains exactly the values that an environment may return, so Gymnasium's checker applies.

* ``gymnasium.spaces.Text`` checks every character against a fixed charset. Observations and actions here are any text,
  bounded only in length. ``sample`` joins words, so that samples resemble the text of an agent.
* A browser or a desktop makes its screenshots as PNG files. An observation may carry such a file as it was made: it is
  hashed, stored and displayed without a decoding and an encoding, which cost more than the rest of a step.

To add a kind of observation: its type and its space here, and its normal form in ``runner.observations``.
"""

import struct
import zlib
from collections.abc import Sequence
from io import BytesIO
from typing import Any, Self

import numpy as np
from gymnasium.spaces import Box, Dict, OneOf, Space, Tuple
from numpy.typing import NDArray

from ..base.pictures import has_second_header, is_deep, on_white

SIGNATURE = b"\x89PNG\r\n\x1a\n"
HEADER = struct.Struct(">8sI4sII5BI")
"""The signature and the whole first chunk: length, name, width, height, five bytes of settings, checksum."""
HEADER_BYTES = 13
"""Length of the content of the first chunk."""
END = b"\0\0\0\0IEND\xaeB`\x82"
COMPRESSION_LEVEL = 6


class Png(bytes):
    """The bytes of a PNG file. The constructor checks the first and the last chunk, not the compressed pixels.

    Raises:
        ValueError: the bytes are not a PNG file, or the file has no pixels.
    """

    __slots__ = ()

    def __new__(cls, data: bytes) -> Self:
        """Check the bytes of a file."""
        if len(data) < HEADER.size or data[:8] != SIGNATURE or not data.endswith(END):
            raise ValueError(f"{len(data)} bytes are not a PNG file: they lack its signature, header or end")
        _, length, name, width, height, *_, checksum = HEADER.unpack_from(data)
        if (length, name) != (HEADER_BYTES, b"IHDR") or checksum != zlib.crc32(data[12 : HEADER.size - 4]):
            raise ValueError("the header of a PNG file is damaged")
        if has_second_header(data):
            raise ValueError("a PNG file has two headers: encode it again")
        if not width or not height:
            raise ValueError(f"a PNG file of {width} x {height} has no pixels")
        return super().__new__(cls, data)

    @classmethod
    def encode(cls, image: NDArray[np.uint8], level: int = COMPRESSION_LEVEL) -> Self:
        """Encode an image of height x width x 3, without an imaging library."""
        height, width, _ = image.shape
        rows = np.zeros((height, 1 + width * 3), np.uint8)
        rows[:, 1:] = image.reshape(height, width * 3)

        def chunk(kind: bytes, data: bytes) -> bytes:
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

        header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
        body = zlib.compress(rows.tobytes(), level)
        return cls(SIGNATURE + chunk(b"IHDR", header) + chunk(b"IDAT", body) + END)

    @property
    def width(self) -> int:
        """Return the number of pixels per row."""
        return int.from_bytes(self[16:20], "big")

    @property
    def height(self) -> int:
        """Return the number of rows."""
        return int.from_bytes(self[20:24], "big")

    def pixels(self) -> NDArray[np.uint8]:
        """Return the pixels, height x width x 3, on white. Raises as ``decoded`` does."""
        return np.asarray(self.decoded())

    def decoded(self) -> Any:
        """Return the image of Pillow, decoded, RGB on white. A file of plain RGB is neither converted nor copied.

        Raises:
            OSError: the file is damaged after its header, is far larger than its bytes, or has 16 bits per channel.
        """
        from PIL import Image, UnidentifiedImageError

        try:
            with Image.open(BytesIO(self), formats=["PNG"]) as opened:
                if is_deep(self):
                    raise OSError(f"{self!r} has 16 bits per channel, which would be cut")
                opened.load()
                return opened if opened.mode == "RGB" and not opened.has_transparency_data else on_white(opened)
        except UnidentifiedImageError as error:  # its text names an object in memory
            raise OSError(f"{self!r} cannot be decoded: its first part is damaged") from error
        except (SyntaxError, ValueError, Image.DecompressionBombError) as error:
            raise OSError(f"{self!r} cannot be decoded: {error}") from error

    def __repr__(self) -> str:
        return f"Png({self.width} x {self.height}, {len(self)} bytes)"

    __str__ = __repr__


class PngSpace(Space[Png]):
    """PNG files of one size in pixels; ``sample`` draws a picture of one color."""

    def __init__(self, width: int, height: int, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(shape=None, dtype=None, seed=seed)
        self.width, self.height = width, height

    @property
    def is_np_flattenable(self) -> bool:
        """Return False: the files differ in length."""
        return False

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> Png:
        """Return a picture of a random color; ``mask`` and ``probability`` are ignored."""
        color = self.np_random.integers(0, 256, size=3, dtype=np.uint8)
        return Png.encode(np.broadcast_to(color, (self.height, self.width, 3)))

    def contains(self, x: Any) -> bool:
        """Return whether ``x`` is a PNG file of this size."""
        return isinstance(x, Png) and (x.width, x.height) == (self.width, self.height)

    def __repr__(self) -> str:
        return f"PngSpace({self.width}, {self.height})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PngSpace) and (self.width, self.height) == (other.width, other.height)

    def __hash__(self) -> int:
        return hash((self.width, self.height))


MAX_ACTION_CHARS = 65_536
CHANNELS = 3
"""Red, green and blue of an image as an array: it has the shape (height, width, 3)."""


def has_images(space: Space[Any] | None) -> bool:
    """Return whether the observations of a space have an image; false without a space."""
    return bool(image_sizes(space))


def image_sizes(space: Space[Any] | None) -> list[tuple[int, int]]:
    """Return width and height, in pixels, of each image of an observation of a space; none without a space."""
    if isinstance(space, Dict):
        return [size for part in space.values() for size in image_sizes(part)]
    if isinstance(space, OneOf | Tuple):
        return [size for part in space.spaces for size in image_sizes(part)]
    if isinstance(space, PngSpace):
        return [(space.width, space.height)]
    if isinstance(space, Box) and space.shape[2:] == (CHANNELS,) and space.dtype == np.uint8:
        return [(space.shape[1], space.shape[0])]
    return []


class FreeText(Space[str]):
    """Any string of at most ``max_length`` characters; ``sample`` draws from ``words``."""

    def __init__(
        self,
        max_length: int = MAX_ACTION_CHARS,
        words: Sequence[str] = ("yes", "no"),
        seed: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(shape=None, dtype=str, seed=seed)
        self.max_length = max_length
        self.words = tuple(words)

    @property
    def is_np_flattenable(self) -> bool:
        """Return False: text has no array form."""
        return False

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> str:
        """Return one to four words at random; ``mask`` and ``probability`` are ignored."""
        count = int(self.np_random.integers(1, 5))
        picks = self.np_random.integers(0, len(self.words), size=count)
        return " ".join(self.words[int(pick)] for pick in picks)[: self.max_length]

    def contains(self, x: Any) -> bool:
        """Return whether ``x`` is a string within the length bound."""
        return isinstance(x, str) and len(x) <= self.max_length

    def __repr__(self) -> str:
        return f"FreeText({self.max_length})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FreeText) and (self.max_length, self.words) == (other.max_length, other.words)

    def __hash__(self) -> int:
        return hash((self.max_length, self.words))
