"""The size of the pictures that a policy sees: smaller than the screen, in the same shape.

The coordinates that a policy writes are those of the picture that it saw.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import sqrt
from typing import Self

import numpy as np

from ..base import Image
from .calls import Action, Invalid
from .elements import Node

MIN_PIXELS = 1024
HORIZONTAL, VERTICAL = ("x", "to_x"), ("y", "to_y")
"""Names of the coordinates of actions."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The size of the screen, and that of the pictures of it, in pixels."""

    screen: tuple[int, int]
    picture: tuple[int, int]

    @classmethod
    def of(cls, width: int, height: int, max_pixels: int | None) -> Self:
        """Return the scale of pictures with at most ``max_pixels`` pixels; None keeps the size of the screen.

        Raises:
            ValueError: ``max_pixels`` is too small, or no whole number.
        """
        if max_pixels is not None and type(max_pixels) is not int:
            raise ValueError(f"`max_pixels` must be a whole number of pixels, not {max_pixels!r}")
        if max_pixels is None or max_pixels >= width * height:
            return cls((width, height), (width, height))
        if max_pixels < MIN_PIXELS:
            raise ValueError(f"`max_pixels` is {max_pixels}; a picture needs at least {MIN_PIXELS}")
        share = sqrt(max_pixels / (width * height))
        return cls((width, height), (max(int(width * share), 1), max(int(height * share), 1)))

    @property
    def _factors(self) -> tuple[float, float]:
        """Return the pixels of a picture per pixel of the screen, in each direction."""
        (width, height), (shown_width, shown_height) = self.screen, self.picture
        return shown_width / width, shown_height / height

    def on_screen(self, action: Action) -> Action:
        """Return an action whose coordinates are those of a picture as one of the screen.

        Raises:
            Invalid: a point is outside the smaller picture; the driver would name the point of the screen.
        """
        if self.picture == self.screen:
            return action
        across, down = self._factors
        shown_width, shown_height = self.picture
        for names in zip(HORIZONTAL, VERTICAL, strict=True):
            if names[0] in action.arguments:
                x, y = (action.arguments[name] for name in names)
                if not (0 <= x < shown_width and 0 <= y < shown_height):
                    raise Invalid(f"({x:g}, {y:g}) is outside the picture of {shown_width} x {shown_height}")
        scaled = {name: action.arguments[name] / across for name in HORIZONTAL if name in action.arguments}
        scaled |= {name: action.arguments[name] / down for name in VERTICAL if name in action.arguments}
        return Action(action.verb, {**action.arguments, **scaled}) if scaled else action

    def in_picture(self, place: Iterable[float]) -> list[float]:
        """Return a point ``[x, y]`` or box ``[x, y, width, height]`` of the screen in a picture."""
        return [round(value * self._factors[index % 2], 1) for index, value in enumerate(place)]

    def nodes(self, nodes: Iterable[Node]) -> list[Node]:
        """Return nodes with their rectangles in a picture."""
        return [{**node, "rect": self.in_picture(node["rect"])} if "rect" in node else node for node in nodes]

    def shrunk(self, screen: Image) -> Image:
        """Return the picture of the screen: each pixel is the mean of those that it covers."""
        from PIL import Image as Pillow

        if self.picture == self.screen:
            return screen
        return np.asarray(Pillow.fromarray(screen).resize(self.picture, Pillow.Resampling.BOX))
