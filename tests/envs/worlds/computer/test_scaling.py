"""Pictures smaller than the screen: their size, the coordinates of actions, and what is drawn on them."""

import zlib
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from turnwise.envs.runner.observations import MAX_OBSERVATION_BYTES
from turnwise.envs.spaces import Png, PngSpace
from turnwise.envs.worlds.computer.calls import Action, Invalid
from turnwise.envs.worlds.computer.env import MAX_OBSERVATION_CHARS, MAX_PICTURE_PIXELS
from turnwise.envs.worlds.computer.scaling import Scale
from turnwise.envs.worlds.desktop.env import DesktopEnv
from turnwise.envs.worlds.web.custom_site import CustomSiteEnv
from turnwise.tests.agents.pictures import claimed, noted


@given(st.integers(1, 4000), st.integers(1, 4000), st.integers(1024, 4_000_000))
def test_a_picture_keeps_the_shape_within_its_pixels(width: int, height: int, most: int) -> None:
    scale = Scale.of(width, height, most)
    shown_width, shown_height = scale.picture
    if width * height <= most:
        assert scale.picture == (width, height)
    else:
        assert shown_width * shown_height <= max(most, width, height)
        assert (shown_width - 1) / width <= (most / (width * height)) ** 0.5 <= (shown_width + 1) / width
        assert (shown_height - 1) / height <= (most / (width * height)) ** 0.5 <= (shown_height + 1) / height


def test_coordinates_are_those_of_the_picture() -> None:
    scale = Scale.of(1024, 768, 512 * 384)
    assert scale.picture == (512, 384)
    click = Action("click", {"x": 100.0, "y": 50.5, "button": "left"})
    assert scale.on_screen(click) == Action("click", {"x": 200.0, "y": 101.0, "button": "left"})
    drag = Action("drag", {"x": 1.0, "y": 2.0, "to_x": 3.0, "to_y": 4.0})
    assert scale.on_screen(drag).arguments == {"x": 2.0, "y": 4.0, "to_x": 6.0, "to_y": 8.0}
    numbered = Action("click", {"id": 3})
    assert scale.on_screen(numbered) == numbered
    assert scale.in_picture([200.0, 101.0]) == [100.0, 50.5]
    assert scale.in_picture([20, 40, 60, 80]) == [10.0, 20.0, 30.0, 40.0]
    node = {"id": 1, "role": "button", "name": "", "rect": [20, 40, 60, 80]}
    assert scale.nodes([node, {"id": 2}]) == [{**node, "rect": [10.0, 20.0, 30.0, 40.0]}, {"id": 2}]


def test_a_place_outside_of_the_picture_is_refused_in_the_numbers_that_the_policy_wrote() -> None:
    scale = Scale.of(1024, 768, 512 * 384)
    at_the_border = scale.on_screen(Action("click", {"x": 511.9, "y": 383.9})).arguments
    assert at_the_border["x"] < 1024
    assert at_the_border["y"] < 768
    for place in ({"x": 512.0, "y": 5.0}, {"x": 1.0, "y": 1.0, "to_x": 512.0, "to_y": 5.0}):
        with pytest.raises(Invalid, match=r"^\(512, 5\) is outside the picture of 512 x 384$"):
            scale.on_screen(Action("drag", place))
    whole = Scale.of(1024, 768, None)
    outside = Action("click", {"x": 1024.0, "y": -1.0})
    assert whole.on_screen(outside) == outside, "the driver refuses it"


def test_a_pixel_is_the_mean_of_those_that_it_covers() -> None:
    screen = np.arange(64 * 64 * 3, dtype=np.int64).reshape(64, 64, 3).astype(np.uint8)
    screen[0:2, 0:2] = [[[10, 0, 0], [20, 0, 0]], [[30, 0, 0], [40, 0, 0]]]
    shrunk = Scale.of(64, 64, 1024).shrunk(screen)
    assert shrunk.shape == (32, 32, 3)
    assert shrunk[0, 0].tolist() == [25, 0, 0]


def test_too_few_pixels_and_pixels_of_a_text_are_refused() -> None:
    with pytest.raises(ValueError, match="`max_pixels` is 10; a picture needs at least 1024"):
        DesktopEnv("screenshot", max_pixels=10)
    for wrong in ("200000", 2e5, True):
        with pytest.raises(ValueError, match=f"`max_pixels` must be a whole number of pixels, not {wrong!r}"):
            DesktopEnv("screenshot", max_pixels=wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`max_pixels` is of screenshots; set `observation`"):
        DesktopEnv("text", max_pixels=2000)


def test_a_screen_that_no_observation_holds_is_refused_by_the_option_that_helps() -> None:
    class Large(DesktopEnv):
        width, height = 3840, 2160

    assert Large("text").scale.picture == (3840, 2160)
    assert Large("both", max_pixels=2_500_000).scale.picture == (2108, 1185)
    assert MAX_PICTURE_PIXELS * 3 + 4 * MAX_OBSERVATION_CHARS < MAX_OBSERVATION_BYTES
    for most in (None, 2_600_000):
        with pytest.raises(ValueError, match=r"x \d+ pixels is larger .*: set `max_pixels` to 2500000 at most"):
            Large("screenshot", max_pixels=most)


def test_the_space_and_a_black_picture_have_the_smaller_size() -> None:
    env = DesktopEnv("screenshot", max_pixels=512 * 384)
    assert env.observation_space["image"] == PngSpace(512, 384)  # type: ignore[index]
    damaged = Png.encode(np.full((768, 1024, 3), 9, np.uint8))
    damaged = Png(damaged[:60] + bytes(40) + damaged[100:])
    small, whole = Png.encode(np.full((8, 8, 3), 9, np.uint8)), Png.encode(np.full((768, 1024, 3), 9, np.uint8))
    text = zlib.compress(bytes(2 << 20))
    bombs = [noted(b"iTXt", b"a\0\1\0\0\0" + text, whole), noted(b"iCCP", b"a\0\0" + text, whole)]
    for png in (b"", damaged, small, *bombs, claimed(20_000, 20_000), noted(b"IHDR", b"", whole)):
        image = env._image(png)
        assert (image.width, image.height, int(image.pixels().max())) == (512, 384, 0)


@pytest.mark.parametrize("grid", [(1000, 1000), (1036, 756)])
def test_coordinates_are_those_of_a_grid(grid: tuple[int, int]) -> None:
    for most in (None, 512 * 384):
        scale = Scale.of(1024, 768, most, grid)
        middle = scale.on_screen(Action("click", {"x": grid[0] / 2, "y": grid[1] / 4})).arguments
        assert middle == {"x": 512.0, "y": 192.0}
        drag = Action("drag", {"x": 0.0, "y": 0.0, "to_x": float(grid[0]), "to_y": float(grid[1])})
        assert scale.on_screen(drag).arguments == {"x": 0.0, "y": 0.0, "to_x": 1023, "to_y": 767}
        assert scale.in_picture([512.0, 192.0]) == [scale.picture[0] / 2, scale.picture[1] / 4]
        for x, y in ((grid[0] + 1.0, 1.0), (1.0, grid[1] + 1.0), (-1.0, 1.0)):
            with pytest.raises(Invalid, match=f"outside the picture of {grid[0]} x {grid[1]}"):
                scale.on_screen(Action("click", {"x": x, "y": y}))


@pytest.mark.parametrize("grid", [[1000], [1000, 0], [1000, True], [1000, 1e3]])
def test_a_wrong_grid_is_refused(grid: Any) -> None:
    with pytest.raises(ValueError, match="`coordinates` must be a width and a height"):
        Scale.of(1024, 768, None, grid)


def test_the_instructions_state_the_coordinates_of_screenshots() -> None:
    assert "(left)" not in DesktopEnv().instructions()
    for make in (DesktopEnv, CustomSiteEnv):
        env = make(observation="screenshot")
        assert f"x from 0 (left) to {env.width - 1} and y from 0 (top) to {env.height - 1}" in env.instructions()
        env = make(observation="both", coordinates=(1000, 1000))
        assert "x from 0 (left) to 1000 and y from 0 (top) to 1000" in env.instructions()
        with pytest.raises(ValueError, match="`coordinates` are of screenshots"):
            make(coordinates=(1000, 1000))


@pytest.mark.parametrize(
    "text",
    [
        "click(500, 250)",
        "pyautogui.click(500, 250)",
        "Action: click(start_box='(500,250)')",
        "Action: click(point='<point>500 250</point>')",
    ],
)
def test_every_dialect_of_a_desktop_points_in_the_grid(text: str) -> None:
    (click,) = cast("list[Action]", DesktopEnv(observation="screenshot", coordinates=(1000, 1000))._parsed(text))
    assert (click.arguments["x"], click.arguments["y"]) == (512, 192)


def test_a_site_points_in_the_grid() -> None:
    (drag,) = cast(
        "list[Action]",
        CustomSiteEnv(observation="both", coordinates=(1000, 1000))._parsed("drag_and_drop(500, 500, 1000, 0)"),
    )
    assert [drag.arguments[name] for name in ("x", "y", "to_x", "to_y")] == [320, 240, 639, 0]
