"""``turnwise/TinyPixelsWeb-v0``: click on the blue box, seen in a screenshot of a real browser.

The page has three boxes of different colors in a window of 112 x 112 pixels, each in a corner of its own, and one is
blue. An observation is the screenshot and words that are always the same, ``task blue``; ``click 84 28`` clicks a point
of the screenshot. A random player that clicks on boxes succeeds in one of three episodes.

Reward: 1 for the box of the color; -0.3 for another box; -0.05 for a click that hits no box.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from ...draws import SeededDraws, draw_for, held_out
from ...episode import Turn
from ...spaces import Png
from ..computer.elements import Node
from ..web.browser_session import SPEC, BrowserSession
from .base import end
from .pixels import TinyPixelsEnv, coordinates

SIDE_PX, CELL_PX = 112, 56
CORNERS = [(x, y) for x in (0, CELL_PX) for y in (0, CELL_PX)]
"""The left upper corners of the places of boxes, in pixels."""
BOXES = 3
BLUE = "#0000ff"
LEVELS = (0x00, 0x55, 0xAA, 0xFF)
"""Levels of red, green and blue."""
OTHERS = tuple(
    f"#{red:02x}{green:02x}{blue:02x}"
    for red, green, blue in product(LEVELS, repeat=3)
    if blue - max(red, green) < LEVELS[1] and min(red, green, blue) < LEVELS[2]
)
"""Colors that are neither bluish nor close to the white of the page. They are many, so that no policy learns the
pictures by heart."""
TEXT = "task blue"
PORT = 8082
URL = f"http://127.0.0.1:{PORT}/index.html"
STYLE = f"body {{ margin: 0 }} div {{ position: absolute; width: {CELL_PX}px; height: {CELL_PX}px }}"
PAGE = f"<!doctype html><title>Boxes</title><style>{STYLE}</style>"
SERVER = f"echo '{PAGE}' > index.html && exec python3 -I -m http.server {PORT} --bind 127.0.0.1"
DRAW_SCRIPT = """(() => {
  document.body.replaceChildren();
  window.clicked = '';
  for (const [color, x, y] of DRAWN) {
    const box = document.createElement('div');
    box.style.cssText = `left: ${x}px; top: ${y}px; background: ${color}`;
    box.onclick = () => { window.clicked = color; };
    document.body.append(box);
  }
})()"""
CLICKED_SCRIPT = "window.clicked"


@dataclass(frozen=True, slots=True)
class Boxes:
    """One task: click on the blue one of these boxes."""

    places: Mapping[str, tuple[int, int]]
    """The left upper corners by color, in their order: equal pictures have equal instances."""


def draw(seed: int, split: str) -> Boxes:
    """Return the instance of a seed. The splits share no picture."""
    draws = SeededDraws(f"tiny pixels web {split} {seed}")

    def instance() -> tuple[Boxes, bool]:
        others = draws.sample(OTHERS, BOXES - 1)
        places = dict(sorted(zip((BLUE, *others), draws.sample(CORNERS, BOXES), strict=True)))
        return Boxes(places), held_out(str(places))

    return draw_for(split, instance)


class TinyPixelsWebEnv(TinyPixelsEnv[Boxes]):
    """Click on the blue box, which only the screenshot shows.

    Raises:
        ValueError: at reset, the split is unknown.
        SandboxError: the sandbox or its driver failed.
    """

    name = "turnwise/TinyPixelsWeb-v0"
    width, height, cell_px = SIDE_PX, SIDE_PX, CELL_PX
    words = ("task", "click", "blue", *coordinates(SIDE_PX, CELL_PX), "right", "wrong", "invalid", "ended")
    sandboxed = True
    sandbox_memory_mib, sandbox_image = SPEC.memory_mib, SPEC.image
    keeps_sandbox = True

    def __init__(self) -> None:
        super().__init__()
        self._browser = BrowserSession([SERVER])

    def _begin(self, seed: int, split: str) -> Turn:
        self.episode = instance = draw(seed, split)
        boxes = [(color, *place) for color, place in instance.places.items()]
        opening = {"do": "open", "url": URL, "reusable": True, "width": self.width, "height": self.height}
        script = {"do": "script", "script": DRAW_SCRIPT.replace("DRAWN", json.dumps(boxes)), "settle": True}
        _, png = self._browser.open([opening, script, self._observe()])
        self._take(png)
        return self._seen(Turn(TEXT, info={"extras": self._browser.extras() | {"task": "click"}}))

    def _click(self, x: int, y: int) -> Turn:
        click = {"do": "act", "action": {"verb": "click", "x": x, "y": y}}
        answer, png = self._browser.do([click, {"do": "script", "script": CLICKED_SCRIPT}, self._observe()])
        self._take(png)
        clicked = (answer.get("values") or [""])[-1]
        if clicked or "lost" in answer:
            return end(clicked == BLUE)
        return Turn(TEXT)

    def _observe(self) -> dict[str, Any]:
        return {"do": "observe", "tree": False, "screenshot": True}

    def _elements(self) -> Mapping[str, Node]:
        return {color: {"rect": (*place, CELL_PX, CELL_PX)} for color, place in self.episode.places.items()}

    def _solution(self) -> str:
        return BLUE

    def screenshot(self) -> Png | None:
        """Return the browser's window."""
        return self._browser.screenshot()

    def close(self) -> None:
        """Release the sandbox."""
        self._browser.close()
