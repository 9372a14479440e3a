"""Set-of-marks: the numbers of the elements, drawn over a screenshot (Yang et al. 2023, "Set-of-Mark prompting")."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..base import Image

COLOURS = ((200, 30, 30), (30, 90, 200), (20, 130, 60), (150, 60, 170), (190, 110, 0))
FIELDS = ("textbox", "searchbox", "checkbox", "radio", "combobox", "slider", "spinbutton", "switch")
ROLES = ("button", "link", "tab", "option", "menuitem", "clickable", *FIELDS)


def marked(image: Image, nodes: Sequence[Mapping[str, Any]]) -> Image:
    """The picture with a frame and a number for each element that can be acted on and lies in the window; ``nodes`` are
    as ``driver.observe`` tells them.
    """
    from PIL import Image as Pillow
    from PIL import ImageDraw, ImageFont

    picture = Pillow.fromarray(image)
    draw = ImageDraw.Draw(picture)
    font = ImageFont.load_default(size=10)
    for node in nodes:
        if node["role"] not in ROLES or not node.get("seen") or "id" not in node:
            continue
        x, y, wide, high = node["rect"]
        color = COLOURS[node["id"] % len(COLOURS)]
        draw.rectangle((x, y, x + wide, y + high), outline=color)
        label = str(node["id"])
        left, top, right, bottom = draw.textbbox((max(x, 0) + 1, max(y, 0)), label, font=font)
        draw.rectangle((left - 1, top - 1, right + 1, bottom + 1), fill=color)
        draw.text((max(x, 0) + 1, max(y, 0)), label, fill=(255, 255, 255), font=font)
    return np.asarray(picture)
