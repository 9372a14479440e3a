"""PNG files as observations: the checks of the constructor, the encoder, and the space."""

import io
import pickle
import struct
import zlib

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from PIL import Image
from turnwise.envs.base import Info, Obs, TurnEnv
from turnwise.envs.spaces import FreeText, Png, PngSpace, image_sizes
from turnwise.tests.agents.pictures import chunk, claimed, png

IMAGE = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)


def pixels(data: bytes) -> np.ndarray:
    """Decode a PNG chunk by chunk."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, body, size = 8, b"", (0, 0)
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length]) == (zlib.crc32(kind + content),)
        if kind == b"IHDR":
            size = struct.unpack(">II", content[:8])
        body += content if kind == b"IDAT" else b""
        at += 12 + length
    rows = np.frombuffer(zlib.decompress(body), np.uint8).reshape(size[1], 1 + size[0] * 3)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(size[1], size[0], 3)


def test_a_file_holds_the_pixels() -> None:
    file = Png.encode(IMAGE)
    assert (pixels(file) == IMAGE).all()
    assert (file.pixels() == IMAGE).all()
    assert (file.width, file.height) == (3, 2)
    assert pickle.loads(pickle.dumps(file)) == file  # noqa: S301 - as Ray moves it


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "0 bytes are not a PNG file"),
        (b"GIF89a" + bytes(60), "66 bytes are not a PNG file"),
        (Png.encode(IMAGE)[:-1], "lack its signature, header or end"),
        (Png.encode(IMAGE).replace(b"\0\0\0\x03", b"\0\0\0\x04", 1), "the header of a PNG file is damaged"),
    ],
)
def test_other_bytes_are_refused(data: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Png(data)


def test_a_file_without_pixels_is_refused() -> None:
    with pytest.raises(ValueError, match="a PNG file of 3 x 0 has no pixels"):
        Png.encode(IMAGE[:0])


@pytest.mark.parametrize("color", [0, 2, 4, 6])
def test_16_bits_per_channel_are_refused_for_every_color_type(color: int) -> None:
    deep = claimed(4, 4, 16, color)[:33] + chunk(b"IDAT", zlib.compress(bytes(999))) + chunk(b"IEND", b"")
    with pytest.raises(OSError, match="16 bits per channel"):
        Png(deep).pixels()


def test_a_file_has_one_header_and_prints_as_a_few_words() -> None:
    picture = Png.encode(IMAGE)
    with pytest.raises(ValueError, match="two headers"):
        Png(picture[:8] + claimed(9, 9)[8:33] + picture[8:])
    assert f"{picture}" == str(picture) == f"Png(3 x 2, {len(picture)} bytes)"


def test_a_file_that_pillow_does_not_know_is_named_by_its_size() -> None:
    damaged = Png(png(4, 4)[:33] + chunk(b"iCCP", b"a\0\1") + png(4, 4)[33:])
    with pytest.raises(OSError, match=r"^Png\(4 x 4, \d+ bytes\) cannot be decoded: its first part is damaged$"):
        damaged.pixels()


def test_the_images_of_a_space_are_found_in_its_parts() -> None:
    pixels, text = gymnasium.spaces.Box(0, 255, (20, 30, 3), np.uint8), FreeText()
    both = gymnasium.spaces.Dict(text=text, image=PngSpace(4, 5))
    assert image_sizes(gymnasium.spaces.OneOf([text, both])) == [(4, 5)]
    assert image_sizes(gymnasium.spaces.Tuple([pixels, both])) == [(30, 20), (4, 5)]
    assert image_sizes(gymnasium.spaces.Box(0, 255, (3, 20, 30), np.uint8)) == []  # channels first: no image here


def test_a_transparent_pixel_has_no_hidden_color() -> None:
    buffer = io.BytesIO()
    Image.fromarray(np.array([[[255, 0, 0, 0], [255, 0, 0, 255]]], np.uint8)).save(buffer, "PNG")
    assert Png(buffer.getvalue()).pixels().tolist() == [[[255, 255, 255], [255, 0, 0]]]


def test_the_space_contains_files_of_its_size_only() -> None:
    space = PngSpace(3, 2, seed=0)
    assert Png.encode(IMAGE) in space
    assert space.sample() in space
    assert space.sample() != space.sample()
    assert bytes(Png.encode(IMAGE)) not in space
    assert Png.encode(IMAGE.reshape(3, 2, 3)) not in space
    assert space == PngSpace(3, 2) != PngSpace(2, 3)


class Pictured(TurnEnv):
    """Shows a text and a picture."""

    def __init__(self) -> None:
        self.action_space = FreeText()
        self.observation_space = gymnasium.spaces.Dict({"text": FreeText(), "image": PngSpace(3, 2)})

    def reset(self, *, seed: int | None = None, options: dict[str, object] | None = None) -> tuple[Obs, Info]:
        super().reset(seed=seed)
        return {"text": "look", "image": Png.encode(IMAGE)}, {}

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        return {"text": "done", "image": Png.encode(IMAGE)}, 0.0, True, False, {}


def test_the_checker_of_gymnasium_accepts_the_space() -> None:
    check_env(Pictured(), skip_render_check=True)
