"""Tiny environments in pixels: the screenshot holds the task, and a click is a point of it."""

import statistics
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from turnwise.envs.spaces import Png
from turnwise.envs.worlds.computer.elements import Node
from turnwise.envs.worlds.desktop.desktop_session import DesktopSession, opening
from turnwise.envs.worlds.desktop.task import DesktopTask
from turnwise.envs.worlds.tiny.pixels import TinyPixelsEnv, _holds, coordinates
from turnwise.envs.worlds.tiny.pixels_desktop import CORNERS, TinyPixelsDesktopEnv
from turnwise.envs.worlds.tiny.pixels_desktop import draw as draw_press
from turnwise.envs.worlds.tiny.pixels_web import BLUE, TinyPixelsWebEnv
from turnwise.envs.worlds.tiny.pixels_web import draw as draw_boxes
from turnwise.sandbox import SandboxError


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
        "click \uff12\uff18 28",
        "press 42 42",
    ):
        seen: Any
        seen, reward, over, _, info = web.step(bad)
        assert (seen["text"], reward, over, info["action_valid"]) == ("invalid", -0.05, False, False), bad
        assert seen["image"] == first["image"]
        assert info.get("targets", []) == (
            [[float(one) for one in bad.split()[1:]]] if bad in (empty, "click 56 28") else []
        )
    wanted = web._clicks(web._elements()[BLUE])
    wrong = next(action for action in valid if action not in wanted)
    seen, reward, over, _, info = web.step(wrong)
    assert (seen["text"], reward, over, info["success"]) == ("wrong", -0.3, True, False)
    seen, reward, *_ = web.step(wrong)
    assert (seen["text"], reward) == ("ended", 0.0)
    check(web, seen)


def test_the_oracle_presses_the_digit_on_a_small_desktop(desktop: TinyPixelsDesktopEnv) -> None:
    assert [solve(desktop, seed) for seed in range(6)] == [1] * 6


def test_the_calculator_stands_where_the_task_says(desktop: TinyPixelsDesktopEnv) -> None:
    """Also in a sandbox that played before: two starts of one task have equal pictures."""
    starts = []
    for seed in (0, 2, 0):
        seen: Any = desktop.reset(seed=seed)[0]
        (window,) = (node for node in desktop._nodes if node["role"] == "window")
        left, top, width, height = window["rect"]
        assert (left, top) == desktop.episode.place
        assert max(left + width, top + height) <= 280
        title = check(desktop, seen).pixels()[top + 10]
        assert (title[left - 1] != title[left + 3]).any()  # the window begins here
        starts.append((seen["text"], bytes(seen["image"])))
    assert starts[0] == starts[2] != starts[1]


def test_the_splits_of_the_desktop_share_no_place() -> None:
    train, test = ({draw_press(seed, split).place for seed in range(3000)} for split in ("train", "test"))
    assert not train & test
    assert train | test == set(CORNERS)


def test_the_words_of_the_desktop_decide_a_third_of_the_episodes_at_most(desktop: TinyPixelsDesktopEnv) -> None:
    """The best that a player can do who knows every place, sees none, and has a second click if the first is invalid.

    The page of the environment cites this number.
    """
    desktop.reset(seed=0)
    x, y = desktop.episode.place
    elements, points = desktop._elements(), list(product(map(int, coordinates(280, 14)), repeat=2))

    def hits(name: str) -> NDArray[np.bool_]:
        """Return for each place of the window whether each point hits a button."""
        left, top, *size = elements[name]["rect"]
        moved: list[Node] = [{"rect": (left - x + right, top - y + down, *size)} for right, down in CORNERS]
        return np.array([[_holds(node, *point) for point in points] for node in moved])

    nothing = ~np.any([hits(name) for name in elements], axis=0)
    best = []
    for digit in "123456789":
        right = hits(digit).astype(float)
        best.append(float((right.mean(0) + (nothing.T @ right / len(CORNERS)).max(1)).max()))
    assert statistics.mean(best) == pytest.approx(0.344, abs=0.001)


def test_another_button_fails_and_a_click_beside_the_buttons_is_invalid(desktop: TinyPixelsDesktopEnv) -> None:
    first: Any = desktop.reset(seed=3)[0]
    x, y = desktop.episode.place
    seen: Any
    for bad in (f"click {x + 217} {y + 7}", f"click {x + 100} {y + 40}", "click 280 7", "press 4", ""):
        seen, reward, over, _, info = desktop.step(bad)
        assert (seen["text"], reward, over, info["action_valid"]) == ("invalid", -0.05, False, False), bad
        assert seen["image"] == first["image"]
    other = next(word for word in "12" if word != desktop.episode.digit)
    seen, reward, over, _, info = desktop.step(desktop._clicks(desktop._elements()[other])[0])
    assert (seen["text"], reward, over, info["success"]) == ("wrong", -0.3, True, False)
    changed = (check(desktop, first).pixels() != check(desktop, seen).pixels()).any(axis=(1, 2)).nonzero()[0]
    assert y + 24 < changed[0] < y + 64  # the rows of the display


def test_only_a_window_is_placed(desktop: TinyPixelsDesktopEnv) -> None:
    desktop.reset(seed=0)
    button = {"verb": "place", "id": desktop._elements()["1"]["id"], "x": 0, "y": 0}
    answer, _ = desktop._desktop.do([{"do": "act", "action": button}, desktop._observe()])
    assert "is not a window" in str(answer)


def test_a_start_without_its_element_is_a_failure_of_the_world(desktops: None) -> None:
    session = DesktopSession(280, 280)
    prepare = [{"verb": "place", "name": ("window", "another"), "x": 0, "y": 0}]
    try:
        with pytest.raises(SandboxError, match="the start of the task needs the element 'window' 'another'"):
            session.open([opening(DesktopTask("task", ("galculator",)), None, prepare)])
    finally:
        session.close()


def test_a_display_has_the_size_of_its_session() -> None:
    assert "336x252x24" in DesktopSession(336, 252).program.helpers[0].command
