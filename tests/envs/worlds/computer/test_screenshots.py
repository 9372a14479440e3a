"""A screenshot that a guest damaged is a black picture in every world of screens, scaled or marked or not."""

from collections.abc import Callable
from typing import Any

import pytest
from turnwise.agents.engine.images import decoded
from turnwise.envs import spaces
from turnwise.envs.spaces import Png
from turnwise.envs.worlds.computer.env import ScreenEnv
from turnwise.envs.worlds.computer.screenshots import black, checked
from turnwise.envs.worlds.desktop.env import DesktopEnv
from turnwise.envs.worlds.tiny.pixels import TinyPixelsEnv
from turnwise.envs.worlds.tiny.pixels_desktop import TinyPixelsDesktopEnv
from turnwise.envs.worlds.tiny.pixels_web import TinyPixelsWebEnv
from turnwise.envs.worlds.web.miniwob.env import MiniWoBEnv
from turnwise.tests.agents.pictures import READABLE, UNREADABLE, chunk, noted, png

SIDE = 84
"""Pixels of a side of the pictures."""
WORLDS: dict[str, Callable[[], ScreenEnv[Any] | TinyPixelsEnv[Any]]] = {
    "web": lambda: MiniWoBEnv("click-button", "screenshot"),
    "scaled": lambda: DesktopEnv("both", max_pixels=42 * 42),
    "marked": lambda: DesktopEnv("screenshot", marks=True),
    "tiny web": TinyPixelsWebEnv,
    "tiny desktop": TinyPixelsDesktopEnv,
}
DAMAGED = {
    **{name: content for name, (content, _) in UNREADABLE.items()},
    "nothing": b"",
    "no pixels": png(SIDE, SIDE)[:33] + chunk(b"IDAT", b"") + chunk(b"IEND", b""),
    "another header": noted(b"IHDR", b""),
    "smaller": png(SIDE, SIDE - 1),
}


@pytest.fixture(params=WORLDS)
def see(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], Png]:
    """Return a function that makes the picture of an observation from a driver's answer."""
    for kind in (MiniWoBEnv, DesktopEnv, TinyPixelsWebEnv, TinyPixelsDesktopEnv):
        monkeypatch.setattr(kind, "width", SIDE)
        monkeypatch.setattr(kind, "height", SIDE)
    env = WORLDS[request.param]()

    def picture(data: bytes) -> Png:
        seen: Any
        if isinstance(env, ScreenEnv):
            seen = env._observation("", {"nodes": []}, data)
        else:
            env._take(data)
            seen = {"text": "task", "image": env._picture}
        assert seen in env.observation_space
        return Png(seen["image"])

    return picture


def test_a_damaged_picture_is_black_and_every_other_is_readable(see: Callable[[bytes], Png]) -> None:
    shown = see(png(SIDE, SIDE))
    assert shown.pixels().any()
    for name, data in DAMAGED.items():
        assert see(data) == black(shown.width, shown.height), name
    for name, data in READABLE.items():
        picture = see(data)
        assert decoded(picture).size == (shown.width, shown.height), name
        assert picture in (data, picture.encode(picture.pixels())), name


def test_a_picture_that_the_driver_itself_encoded_is_not_decoded() -> None:
    """No program of the agent can reach the desktop's driver; only a limit on its output can cut a picture."""
    env = DesktopEnv("screenshot")
    whole = png(env.width, env.height)
    without_pixels = whole[:33] + chunk(b"IDAT", b"") + chunk(b"IEND", b"")
    pictures = [env._observation("", {"nodes": []}, data) for data in (whole, without_pixels, whole[:-1], b"")]
    shown = [picture["image"] for picture in pictures if isinstance(picture, dict)]
    assert shown == [whole, without_pixels, *2 * [black(env.width, env.height)]]


def test_the_picture_of_a_driver_is_decoded_without_a_conversion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(spaces, "on_white")  # which copies a picture, at five times the cost of its decoding
    assert checked(png(SIDE, SIDE), SIDE, SIDE)[0] == png(SIDE, SIDE)
