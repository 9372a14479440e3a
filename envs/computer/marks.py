"""Set-of-mark prompting: draw the numbers of the elements on a screenshot (Yang et al. 2023)."""

from collections.abc import Sequence

import numpy as np

from ..base import Image
from .elements import MARKED_ROLES, Node, in_viewport

COLORS = ((200, 30, 30), (30, 90, 200), (20, 130, 60), (150, 60, 170), (190, 110, 0))
FONT_SIZE_PX = 10


def draw_marks(image: Image, nodes: Sequence[Node]) -> Image:
    """Return a copy of the image with a frame and a number on each element that accepts actions and is in view."""
    from PIL import Image as Pillow
    from PIL import ImageDraw, ImageFont

    picture = Pillow.fromarray(image)
    draw = ImageDraw.Draw(picture)
    font = ImageFont.load_default(size=FONT_SIZE_PX)
    for node in nodes:
        if node["role"] not in MARKED_ROLES or not in_viewport(node):
            continue
        x, y, width, height = node["rect"]
        color = COLORS[node["id"] % len(COLORS)]
        draw.rectangle((x, y, x + width, y + height), outline=color)
        label = str(node["id"])
        corner = max(x, 0) + 1, max(y, 0)
        left, top, right, bottom = draw.textbbox(corner, label, font=font)
        draw.rectangle((left - 1, top - 1, right + 1, bottom + 1), fill=color)
        draw.text(corner, label, fill=(255, 255, 255), font=font)
    return np.asarray(picture)
