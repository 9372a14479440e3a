"""Marks stand next to their elements: the pixels of every element and text stay visible where there is room."""

import numpy as np
import pytest
from turnwise.envs.worlds.computer.elements import Node
from turnwise.envs.worlds.computer.marks import draw_marks

WIDTH, HEIGHT = 320, 240


def node(number: int, role: str, *rect: int, depth: int = 0) -> Node:
    return {"id": number, "role": role, "name": "", "depth": depth, "rect": list(rect), "in_viewport": True}


def boxes(role: str, x: int, y: int, count: int = 5) -> list[Node]:
    return [node(900 + place, role, x, y + 22 * place, 13, 13) for place in range(count)]


CHECKBOXES = [
    *boxes("checkbox", 52, 60),
    *(node(i, "text", 68, 60 + 22 * i, 60, 17) for i in range(5)),
]
LINE = [node(100 + i, "link", 40 + 70 * i, 100, 55, 17) for i in range(4)]
LINES = [
    {**one, "rect": [one["rect"][0], 60 + 40 * row, 55, 17], "id": 10 * row + i}
    for row in range(4)
    for i, one in enumerate(LINE)
]
CORNERS = [node(500 + i, "button", x, y, 13, 13) for i, (x, y) in enumerate([(0, 0), (307, 0), (0, 227), (307, 227)])]
ROW = [
    node(1, "cell", 30, 100, 200, 30),
    node(2, "link", 35, 105, 60, 17, depth=1),
    node(3, "cell", 230, 100, 60, 30),
    node(4, "link", 235, 105, 40, 17, depth=1),
]


@pytest.mark.parametrize(
    "nodes", [CHECKBOXES, LINE, LINES, CORNERS, ROW], ids=["boxes", "line", "lines", "corners", "row"]
)
def test_the_pixels_of_elements_and_texts_stay_visible(nodes: list[Node]) -> None:
    before = np.random.default_rng(0).integers(0, 255, (HEIGHT, WIDTH, 3), np.uint8)
    after = draw_marks(before, nodes)
    for one in nodes:
        if one["role"] != "cell":
            x, y, width, height = one["rect"]
            inside = slice(y, y + height), slice(x, x + width)
            assert np.array_equal(before[inside], after[inside]), one
    assert not np.array_equal(before, after)


def test_where_nothing_is_free_the_number_covers_the_least() -> None:
    screen = [node(7, "textbox", 0, 0, WIDTH, HEIGHT), node(8, "text", 0, 0, WIDTH - 40, HEIGHT)]
    before = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    drawn = np.argwhere(draw_marks(before, screen).any(2))
    assert drawn[:, 1].min() >= WIDTH - 40


def test_an_element_out_of_view_and_a_screen_without_elements_have_no_mark() -> None:
    before = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    hidden = {**node(1, "button", 900, 900, 10, 10), "in_viewport": False}
    for nodes in ([], [hidden], [node(1, "paragraph", 5, 5, 9, 9)]):
        assert np.array_equal(draw_marks(before, nodes), before)
