"""Pictures are PNG files with one shape in the middle."""

import io

import pytest
from PIL import Image
from turnwise.envs.worlds.desktop.tasks.applications.documents import COLORS, GROUND, SHAPES, draw_picture


@pytest.mark.parametrize("shape", SHAPES)
def test_a_picture_shows_its_shape_in_its_color(shape: str) -> None:
    picture = Image.open(io.BytesIO(draw_picture(shape, "blue", 60, 40))).convert("RGB")
    assert picture.size == (60, 40)
    assert picture.getpixel((30, 20)) == COLORS["blue"]
    assert picture.getpixel((0, 0)) == GROUND
    colors = picture.getcolors()
    assert colors is not None
    assert {color for _, color in colors} == {COLORS["blue"], GROUND}


def test_shapes_differ() -> None:
    assert len({draw_picture(shape, "red", 40, 40) for shape in SHAPES}) == len(SHAPES)
    assert draw_picture("circle", "red", 40, 40) == draw_picture("circle", "red", 40, 40)
