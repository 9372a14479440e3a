"""Observations: the allowed types, the hash, and the images that leave an environment."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from turnwise.envs.base import Obs, TurnEnv
from turnwise.envs.errors import EnvironmentBroken
from turnwise.envs.runner.observations import MAX_OBSERVATION_BYTES, observation_hash, parts, split
from turnwise.envs.spaces import Png
from turnwise.tests.agents.pictures import READABLE, UNREADABLE, claimed

IMAGE = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)


def test_an_image_leaves_as_a_file() -> None:
    assert split({"text": "a", "image": IMAGE}) == ("a", [Png.encode(IMAGE)])
    assert split("a") == ("a", [])


def test_a_file_of_the_environment_leaves_as_it_is() -> None:
    other = Png.encode(IMAGE)
    file = Png(other[:33] + b"\0\0\0\x01tEXtaH>\x06\x1a" + other[33:])
    assert split({"text": "a", "image": file})[1] == [file]
    assert split(file) == ("", [file])
    # The hash is that of the file: the same pixels in another file are another observation.
    hashes = [observation_hash(TurnEnv(), {"text": "a", "image": each}) for each in (file, other, IMAGE)]
    assert len(set(hashes)) == 3
    with pytest.raises(EnvironmentBroken, match="the limit is 8388608"):
        parts(Png.encode(np.zeros((2000, 2000, 3), np.uint8)))


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
        {"text": "a", "image": bytes(Png.encode(IMAGE))},
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


def test_a_bad_picture_leaves_by_name_or_as_it_is() -> None:
    """The pixels are not decoded here: the engine and the learner refuse those that cannot be."""
    at_the_door = {
        "two headers": "a PNG file has two headers",
        "no width": "a PNG file of 0 x 0 has no pixels",
        "no height": "a PNG file of 84 x 0 has no pixels",
        "cut": "are not a PNG file",
        "bomb": "the limit is 8388608",
        "large": "the limit is 8388608",
        "20,000 pixels": "the limit is 8388608",
        "animated GIF": "are not a PNG file",
    }
    for name, content in {**READABLE, **{name: one for name, (one, _) in UNREADABLE.items()}}.items():
        if name in at_the_door:
            with pytest.raises((ValueError, EnvironmentBroken), match=at_the_door[name]):
                parts(Png(content))
        else:
            assert split(Png(content))[1] == [content]
    assert split(Png(claimed(20_000, 100)))[1] == [claimed(20_000, 100)]
    with pytest.raises(EnvironmentBroken, match="the limit is 8388608"):
        parts(Png(claimed(20_000, 200)))


@given(st.text() | st.text(st.characters(categories=("Cs", "Cc"))))
def test_any_text_becomes_storable(text: str) -> None:
    clean, image = parts(text)
    assert image is None
    assert "\0" not in clean
    assert clean.encode().decode() == clean
    assert parts(clean) == (clean, None)


def test_a_vector_is_not_called_an_image() -> None:
    with pytest.raises(EnvironmentBroken, match=r"an observation is float32 \(4,\), neither a text nor an image: wrap"):
        parts(np.zeros(4, np.float32))
