"""Set-of-mark prompting (Yang et al. 2023): frames and numbers drawn on a screenshot.

A number stands next to its element, where it covers the least of the elements and texts on the screen.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ...base import Image
from .elements import MARKED_ROLES, Node, in_viewport

COLORS = ((200, 30, 30), (30, 90, 200), (20, 130, 60), (150, 60, 170), (190, 110, 0))
FONT_SIZE_PX = 10


def draw_marks(image: Image, nodes: Sequence[Node]) -> Image:
    """Return a copy of the image with a frame and a number for each element that accepts actions and is in view."""
    from PIL import Image as Pillow
    from PIL import ImageDraw, ImageFont

    picture = Pillow.fromarray(image)
    draw = ImageDraw.Draw(picture)
    font = ImageFont.load_default(size=FONT_SIZE_PX)
    marked = [node for node in nodes if node["role"] in MARKED_ROLES and in_viewport(node)]
    # A node without children, such as a text or a cell, is drawn all over its rectangle.
    leaves = [node for node, after in pairwise((*nodes, {})) if after.get("depth", 0) <= node.get("depth", 0)]
    shown = [*marked, *(node for node in leaves if node.get("in_viewport"))]
    taken = np.array([node["rect"] for node in shown], float).reshape(-1, 4)
    taken[:, 2:] += taken[:, :2]
    for node in marked:
        x, y, width, height = node["rect"]
        color = COLORS[node["id"] % len(COLORS)]
        draw.rectangle((x - 1, y - 1, x + width, y + height), outline=color)
        label = str(node["id"])
        left, top, right, bottom = draw.textbbox((0, 0), label, font=font)
        box = (x, y, x + width, y + height)
        place = _place(box, (right - left + 2, bottom - top + 2), picture.size, taken)
        taken = np.vstack((taken, place))
        draw.rectangle((*place[:2], place[2] - 1, place[3] - 1), fill=color)
        draw.text((place[0] + 1 - left, place[1] + 1 - top), label, fill=(255, 255, 255), font=font)
    return np.asarray(picture)


Box = tuple[float, float, float, float]
"""Left, top, right and bottom."""


def _place(box: Box, size: tuple[float, float], window: tuple[int, int], taken: np.ndarray) -> Box:
    """Return the first place around a box, or in it, that covers the least of ``taken``, boxes that hold it apart."""
    left, top, right, bottom = box
    width, height = size
    before, above = left - 1 - width, top - 1 - height
    corners = ((before, top), (left, above), (right + 1, top), (left, bottom + 1), (right - width, top), (left, top))
    holds = (taken[:, :2] <= (left, top)).all(1) & (taken[:, 2:] >= (right, bottom)).all(1)
    others = taken[~holds | (taken == box).all(1)]

    def placed(corner: tuple[float, float]) -> Box:
        x = min(max(corner[0], 0), window[0] - width)
        y = min(max(corner[1], 0), window[1] - height)
        return x, y, x + width, y + height

    def covered(place: Box) -> float:
        sides = np.minimum(others[:, 2:], place[2:]) - np.maximum(others[:, :2], place[:2])
        return float(sides.clip(0).prod(1).sum())

    return min(map(placed, corners), key=covered)
