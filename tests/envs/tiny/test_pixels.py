"""Tiny environments in pixels: the screenshot holds the task, and a click is a point of it."""

from collections.abc import Iterator
from typing import Any

import pytest
from turnwise.envs.desktop.desktop_session import DesktopSession
from turnwise.envs.spaces import Png
from turnwise.envs.tiny.desktop import KINDS, draw
from turnwise.envs.tiny.pixels import TinyPixelsEnv, coordinates
from turnwise.envs.tiny.pixels_desktop import TinyPixelsDesktopEnv
from turnwise.envs.tiny.pixels_web import BLUE, TinyPixelsWebEnv
from turnwise.envs.tiny.pixels_web import draw as draw_boxes


@pytest.fixture(scope="module")
def web(browsers: None) -> Iterator[TinyPixelsWebEnv]:
    made = TinyPixelsWebEnv()
    yield made
    made.close()


@pytest.fixture(scope="module")
def desktop(desktops: None) -> Iterator[TinyPixelsDesktopEnv]:
    made = TinyPixelsDesktopEnv()
    yield made
    made.close()


def check(env: TinyPixelsEnv[Any], seen: Any) -> Png:
    """Return the picture of an observation that is one of the space, in words of the vocabulary."""
    assert env.observation_space.contains(seen)
    assert set(seen["text"].split()) <= set(env.vocabulary())
    return Png(seen["image"])


def solve(env: TinyPixelsEnv[Any], seed: int) -> int:
    """Play the oracle's episode of a seed; return its turns."""
    check(env, env.reset(seed=seed)[0])
    seen: Any
    for turn in range(1, 5):
        action = env.oracle()
        assert action in dict(env.valid_actions())
        assert set(action.split()) <= set(env.vocabulary())
        seen, reward, over, _, info = env.step(action)
        check(env, seen)
        assert info["targets"] == [[float(one) for one in action.split()[1:]]]
        if over:
            assert (seen["text"], reward, info["success"]) == ("right", 1.0, True)
            return turn
    raise AssertionError(seed)


def test_a_coordinate_is_the_middle_of_a_cell() -> None:
    assert coordinates(42, 14) == ("7", "21", "35")
    for env in (TinyPixelsWebEnv, TinyPixelsDesktopEnv):
        assert {*coordinates(env.width, env.cell_px), *coordinates(env.height, env.cell_px)} <= set(env.words)
        assert (env.width % env.cell_px, env.height % env.cell_px) == (0, 0)


def test_the_oracle_clicks_the_box_of_the_color(web: TinyPixelsWebEnv) -> None:
    assert [solve(web, seed) for seed in range(6)] == [1] * 6


def test_the_clicks_are_where_the_picture_shows_the_boxes(web: TinyPixelsWebEnv) -> None:
    seen: Any = web.reset(seed=1, options={"split": "test"})[0]
    pixels, colors = check(web, seen).pixels(), set()
    for action, _ in web.valid_actions():
        x, y = map(int, action.split()[1:])
        colors.add("#" + bytes(pixels[y, x]).hex())
    assert colors == set(web.episode.places)
    assert [weight for _, weight in web.valid_actions()] == [1.0] * 3  # a random player knows no more than the syntax
    assert seen["text"] == "task blue"


def test_the_splits_share_no_picture() -> None:
    train, test = (
        {frozenset(draw_boxes(seed, split).places.items()) for seed in range(3000)} for split in ("train", "test")
    )
    assert not train & test
    assert len(train) > 2500  # few pictures come twice, so none is learned by heart


def test_another_box_fails_and_a_click_on_no_box_is_invalid(web: TinyPixelsWebEnv) -> None:
    first: Any = web.reset(seed=2)[0]
    valid = {action for action, _ in web.valid_actions()}
    (empty,) = {f"click {x} {y}" for x in (28, 84) for y in (28, 84)} - valid
    for bad in (
        "",
        empty,
        "click",
        "click 112 28",
        "click 56 28",
        "click 42",
        "click a b",
        "click 42 9999",
        "click -1 7",
        "press 42 42",
    ):
        seen: Any
        seen, reward, over, _, info = web.step(bad)
        assert (seen["text"], reward, over, info["action_valid"]) == ("invalid", -0.05, False, False), bad
        assert seen["image"] == first["image"]
    wanted = web._clicks(web._elements()[BLUE])
    wrong = next(action for action in valid if action not in wanted)
    seen, reward, over, _, info = web.step(wrong)
    assert (seen["text"], reward, over, info["success"]) == ("wrong", -0.3, True, False)
    seen, reward, *_ = web.step(wrong)
    assert (seen["text"], reward) == ("ended", 0.0)
    check(web, seen)


def test_the_oracle_solves_every_kind_on_a_small_desktop(desktop: TinyPixelsDesktopEnv) -> None:
    turns: dict[str, int] = {}
    for seed in range(40):
        if (kind := draw(seed, "train", "instance").kind) not in turns:
            turns[kind] = solve(desktop, seed)
    assert turns == {kind.kind: len(kind.presses) for kind in KINDS["trained"]}


def test_the_picture_of_the_desktop_shows_the_display(desktop: TinyPixelsDesktopEnv) -> None:
    """Two starts of one number have equal pictures, and a click on a button changes the picture in the display."""
    seed = next(seed for seed in range(40) if draw(seed, "train", "instance").kind == "show_two")
    first: Any = desktop.reset(seed=seed)[0]
    again: Any = desktop.reset(seed=seed)[0]
    seen: Any
    assert first["image"] == again["image"]
    seen, _, over, _, _ = desktop.step(desktop.oracle())
    assert not over
    changed = (check(desktop, first).pixels() != check(desktop, seen).pixels()).any(axis=(1, 2)).nonzero()[0]
    assert changed[0] < 70  # the rows of the display
    seen, reward, _, _, info = desktop.step("click 217 7")  # the button that closes the window
    assert (seen["text"], reward, info["action_valid"]) == ("invalid", -0.05, False)


def test_a_display_has_the_size_of_its_session() -> None:
    assert "336x252x24" in DesktopSession(336, 252).program.helpers[0].command
