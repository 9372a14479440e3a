"""Screens as PNG: exact, and equal to a picture made from nothing after any change."""

import random
from io import BytesIO

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from turnwise.envs.spaces import Png
from turnwise.envs.worlds.desktop.driver.png import PngEncoder, Strip, combined_adler

WIDTH, HEIGHT = 70, 77


def pixels_of(png: bytes) -> NDArray[np.uint8]:
    """Return a PNG as an array of height x width x 3."""
    return np.asarray(Image.open(BytesIO(png)).convert("RGB"))


def screens() -> list[NDArray[np.uint8]]:
    """Return screens of which each differs from the one before in a rectangle."""
    draws = random.Random(0)
    screen = np.zeros((HEIGHT, WIDTH, 4), np.uint8)
    found = [screen.copy()]
    for _ in range(10):
        y, x = draws.randrange(HEIGHT), draws.randrange(WIDTH)
        screen[y : y + draws.randrange(1, 30), x : x + 9, :3] = draws.randrange(256), 3, draws.randrange(256)
        found.append(screen.copy())
    return found


def test_every_screen_is_exact_and_does_not_depend_on_earlier_ones() -> None:
    encoder = PngEncoder(WIDTH, HEIGHT)
    for screen in screens():
        png = encoder.encode(memoryview(screen.tobytes()))
        assert np.array_equal(pixels_of(png), screen[:, :, 2::-1])
        assert png == PngEncoder(WIDTH, HEIGHT).encode(memoryview(screen.tobytes()))
        assert (Png(png).width, Png(png).height) == (WIDTH, HEIGHT)


def test_unchanged_rows_are_not_compressed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = PngEncoder(WIDTH, HEIGHT)
    screen = bytearray(WIDTH * HEIGHT * 4)
    encoder.encode(memoryview(bytes(screen)))
    compressed: list[bool] = []
    inner = encoder._strip

    def strip(pixels: bytes, first: bool) -> Strip:
        compressed.append(first)
        return inner(pixels, first)

    monkeypatch.setattr(encoder, "_strip", strip)
    screen[40 * WIDTH * 4] = 255
    encoder.encode(memoryview(bytes(screen)))
    assert compressed == [False]


def test_checksums_combine() -> None:
    import zlib

    draws = random.Random(1)
    for size in (0, 1, 5551, 5553, 70000):
        first, second = draws.randbytes(100), draws.randbytes(size)
        combined = combined_adler(zlib.adler32(first), zlib.adler32(second), size)
        assert combined == zlib.adler32(first + second)
