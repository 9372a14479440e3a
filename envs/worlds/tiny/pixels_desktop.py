"""``turnwise/TinyPixelsDesktop-v0``: press a digit on a real calculator that stands anywhere on a small desktop.

The display has 280 x 280 pixels and the calculator 223 x 232, at one of 195 places. The goal ``task press 4`` names the
button, and only the screenshot shows where it is: a player that knows all places and sees nothing succeeds in at most
.34 of the episodes. ``click 35 189`` clicks a point of the screenshot.

Reward: 1 for the button of the digit; -0.3 for another button; -0.05 for a click that hits no button, or one without a
word in ``turnwise/TinyDesktop-v0``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...draws import SeededDraws, draw_for, held_out
from ...episode import Turn
from ...spaces import Png
from ..computer.elements import Node
from ..desktop.desktop_session import SPEC, DesktopSession, opening
from ..desktop.task import DesktopTask
from .base import end
from .desktop import APPLICATION, UNDO, buttons, display
from .pixels import TinyPixelsEnv, coordinates

SIDE_PX, CELL_PX = 280, 14
CORNERS = [(x, y) for x in range(0, 57, 4) for y in range(0, 49, 4)]
"""The places of the window's left upper corner, in pixels, so that the whole window is on the screen."""
FILES: Mapping[str, bytes] = {
    ".config/gtk-3.0/gtk.css": b"button { padding: 0; min-height: 0; min-width: 0 }",
    ".config/galculator/galculator.conf": b"""[general]
display_result_font="Sans Bold 15"
custom_button_font=true
button_font="Sans Bold 8"
button_width=20
button_height=16
show_menu_bar=false
""",
}
"""Settings of the calculator for a small display, in the home folder."""
OTHER_WEIGHT = 0.1
"""Weight of a button that is not the wanted one, among the valid actions."""


@dataclass(frozen=True, slots=True)
class Press:
    """One task: press the button of a digit of the calculator at this place."""

    digit: str
    place: tuple[int, int]
    """The left upper corner of the window, in pixels."""


def draw(seed: int, split: str) -> Press:
    """Return the instance of a seed. The splits share no place of the window, so they share no picture."""
    draws = SeededDraws(f"tiny pixels desktop {split} {seed}")

    def instance() -> tuple[Press, bool]:
        place = draws.choice(CORNERS)
        return Press(str(draws.integer(1, 9)), place), held_out(str(place))

    return draw_for(split, instance)


def _placed(x: int, y: int) -> dict[str, Any]:
    """Return the action that moves the window."""
    return {"verb": "place", "name": ("window", APPLICATION), "x": x, "y": y}


class TinyPixelsDesktopEnv(TinyPixelsEnv[Press]):
    """Press a digit on a real calculator, whose place only the screenshot shows.

    Raises:
        ValueError: at reset, the split is unknown.
        SandboxError: the sandbox or its driver failed.
    """

    name = "turnwise/TinyPixelsDesktop-v0"
    width, height, cell_px = SIDE_PX, SIDE_PX, CELL_PX
    words = (
        *("task", "press", "click"),
        *dict.fromkeys((*map(str, range(1, 10)), *coordinates(SIDE_PX, CELL_PX))),
        *("right", "wrong", "invalid", "ended"),
    )
    sandboxed = True
    sandbox_memory_mib, sandbox_image = SPEC.memory_mib, SPEC.image
    keeps_sandbox = True

    def __init__(self) -> None:
        super().__init__()
        self._desktop = DesktopSession(self.width, self.height)
        self._nodes: Sequence[Node] = ()

    def _begin(self, seed: int, split: str) -> Turn:
        self.episode = draw(seed, split)
        task = DesktopTask(self._text(), (APPLICATION,), FILES)
        opened = opening(task, (*UNDO, _placed(0, 0)), (_placed(*self.episode.place),))
        self._read(*self._desktop.open([opened, self._observe()]))
        return self._seen(Turn(self._text(), info={"extras": self._desktop.extras() | {"task": "press"}}))

    def _click(self, x: int, y: int) -> Turn:
        click = {"verb": "click", "x": x, "y": y}
        self._read(*self._desktop.do([{"do": "act", "action": click}, self._observe()]))
        return end(display(self._nodes) == self.episode.digit)

    def _text(self) -> str:
        return f"task press {self.episode.digit}"

    def _observe(self) -> dict[str, Any]:
        return {"do": "observe", "screenshot": True}

    def _read(self, answer: Mapping[str, Any], png: bytes) -> None:
        self._nodes = answer.get("nodes", ())
        self._take(png)

    def _elements(self) -> Mapping[str, Node]:
        return buttons(self._nodes)

    def _weight(self, name: str) -> float:
        return 1.0 if name == self.episode.digit else OTHER_WEIGHT

    def _solution(self) -> str:
        return self.episode.digit

    def screenshot(self) -> Png | None:
        """Return the screen as it is now."""
        return self._desktop.screenshot()

    def close(self) -> None:
        """Release the sandbox."""
        self._desktop.close()
