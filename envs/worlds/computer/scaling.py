"""The size of the pictures that a policy sees, in the shape of the screen, and the coordinates that it writes.

Coordinates are pixels of the picture that the policy saw, or those of a grid over it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Self

import numpy as np

from ...base import Image
from .calls import Action, Invalid
from .elements import Node

MIN_PIXELS = 1024
POINTS = (("x", "y"), ("to_x", "to_y"))
"""Names of the coordinates of the points of an action."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The size of the screen, and that of the pictures of it, in pixels."""

    screen: tuple[int, int]
    picture: tuple[int, int]
    grid: tuple[int, int] | None = None
    """The coordinates of the lower right corner; None for pixels of the picture."""

    @classmethod
    def of(cls, width: int, height: int, max_pixels: int | None, grid: Sequence[int] | None = None) -> Self:
        """Return the scale of pictures with at most ``max_pixels`` pixels; None keeps the size of the screen.

        Raises:
            ValueError: ``max_pixels`` is too small, or no whole number; or ``grid`` is not two positive whole numbers.
        """
        if grid is not None and not (len(grid) == 2 and all(type(side) is int and side > 0 for side in grid)):
            raise ValueError(f"`coordinates` must be a width and a height such as [1000, 1000], not {grid!r}")
        pair = None if grid is None else (grid[0], grid[1])
        if max_pixels is not None and type(max_pixels) is not int:
            raise ValueError(f"`max_pixels` must be a whole number of pixels, not {max_pixels!r}")
        if max_pixels is None or max_pixels >= width * height:
            return cls((width, height), (width, height), pair)
        if max_pixels < MIN_PIXELS:
            raise ValueError(f"`max_pixels` is {max_pixels}; a picture needs at least {MIN_PIXELS}")
        share = sqrt(max_pixels / (width * height))
        return cls((width, height), (max(int(width * share), 1), max(int(height * share), 1)), pair)

    @property
    def _factors(self) -> tuple[float, float]:
        """Return the pixels of a picture per pixel of the screen, in each direction."""
        (width, height), (shown_width, shown_height) = self.screen, self.picture
        return shown_width / width, shown_height / height

    def on_screen(self, action: Action) -> Action:
        """Return an action whose coordinates are those of a picture or of the grid as one of the screen.

        The last coordinates of a grid are the last pixels of the screen.

        Raises:
            Invalid: a point is outside; the driver would name the point of the screen.
        """
        if self.grid is None and self.picture == self.screen:
            return action
        width, height = self.grid or self.picture
        last_x, last_y = (side - 1 for side in self.screen)
        arguments = dict(action.arguments)
        for horizontal, vertical in POINTS:
            if horizontal in arguments:
                x, y = arguments[horizontal], arguments[vertical]
                if not (0 <= x <= width and 0 <= y <= height) or (self.grid is None and (x == width or y == height)):
                    raise Invalid(f"({x:g}, {y:g}) is outside the picture of {width} x {height}")
                x, y = x * self.screen[0] / width, y * self.screen[1] / height
                arguments |= {horizontal: min(x, last_x), vertical: min(y, last_y)}
        return Action(action.verb, arguments)

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
