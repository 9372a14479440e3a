"""Observations: the allowed types, the hash, and the PNG encoding."""

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from turnwise.envs.base import Obs, TurnEnv
from turnwise.envs.errors import EnvironmentBroken
from turnwise.envs.runner.observations import MAX_OBSERVATION_BYTES, observation_hash, parts, png, split

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


def test_a_png_holds_the_pixels() -> None:
    assert (pixels(png(IMAGE)) == IMAGE).all()
    assert split({"text": "a", "image": IMAGE}) == ("a", [png(IMAGE)])
    assert split("a") == ("a", [])


def test_the_hash_covers_text_pixels_and_shape() -> None:
    env = TurnEnv()
    all_different: list[Obs] = ["a", "b", IMAGE, IMAGE.reshape(3, 2, 3), {"text": "a", "image": IMAGE}]
    assert len({observation_hash(env, each) for each in all_different}) == 5
    assert observation_hash(env, "a") == "ca978112ca1bbdcafac231b39a23dc4d"
    assert observation_hash(env, IMAGE) == observation_hash(env, np.asfortranarray(IMAGE))


def test_the_hash_covers_the_normalized_observation() -> None:
    class Timed(TurnEnv):
        def normalize(self, observation: Obs) -> Obs:
            assert isinstance(observation, str)
            return observation.split(" at ")[0]

    assert observation_hash(Timed(), "saved at 10:31") == observation_hash(Timed(), "saved at 10:32")


@pytest.mark.parametrize(
    "observation",
    [
        None,
        b"bytes",
        3,
        {"text": "a"},
        {"text": 3, "image": IMAGE},
        {"text": "a", "image": IMAGE, "more": 1},
        {"text": "a", "image": "b"},
        IMAGE.astype(float),
        IMAGE[:, :, 0],
        np.zeros((0, 3, 3), np.uint8),
        "é" * (MAX_OBSERVATION_BYTES // 2 + 1),
        np.zeros((2000, 2000, 3), np.uint8),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_invalid_observation_is_rejected(observation: object) -> None:
    with pytest.raises(EnvironmentBroken):
        parts(observation)


@given(st.text() | st.text(st.characters(categories=("Cs", "Cc"))))
def test_any_text_becomes_storable(text: str) -> None:
    clean, image = parts(text)
    assert image is None
    assert "\0" not in clean
    assert clean.encode().decode() == clean
    assert parts(clean) == (clean, None)
