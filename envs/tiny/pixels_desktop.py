"""``turnwise/TinyPixelsDesktop-v0``: a real calculator on a small desktop, seen in a screenshot.

The tasks of ``turnwise/TinyDesktop-v0`` on a display of 224 x 224 pixels, where small fonts let the calculator fit. An
observation is the screenshot and the goal in words, ``task show 4 7 go``; ``click 35 189`` clicks a point of the
screenshot. The last word marks the end of the goal.
The buttons never move: a policy that reads the goal alone can learn most clicks, and only the display says whether a
digit is there already.

Reward: 1 once the display shows the wanted number; -0.05 for a click that hits no button that has a word there.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ..computer.elements import Node
from ..desktop.desktop_session import SPEC, DesktopSession
from ..episode import Turn
from ..options import one_of
from ..spaces import Png
from .base import end
from .desktop import BY, Instance, buttons, display, draw, start_of
from .pixels import TinyPixelsEnv, coordinates

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
"""Weight of a button whose word the goal does not hold, among the valid actions. It is less than in
``turnwise/TinyDesktop-v0``, because a policy from scratch learns where a button is from these clicks alone."""


class TinyPixelsDesktopEnv(TinyPixelsEnv[Instance]):
    """Show a number on a real calculator, whose display only the screenshot shows.

    Raises:
        ValueError: ``by`` or, at reset, the split is unknown.
        SandboxError: the sandbox or its driver failed.
    """

    name = "turnwise/TinyPixelsDesktop-v0"
    width, height, cell_px = 224, 224, 14
    words = (
        *("task", "click", "show", "clear", "the", "display", "erase", "last", "digit", "add", "go"),
        *dict.fromkeys((*map(str, range(1, 10)), *coordinates(width, cell_px))),
        *("right", "wrong", "invalid", "ended"),
    )
    sandboxed = True
    sandbox_memory_mib, sandbox_image = SPEC.memory_mib, SPEC.image
    keeps_sandbox = True

    def __init__(self, by: str = "instance") -> None:
        super().__init__()
        self.by = one_of("by", by, BY, self.name)
        self._desktop = DesktopSession(self.width, self.height)
        self._nodes: Sequence[Node] = ()
        self._presses = 0

    def _begin(self, seed: int, split: str) -> Turn:
        self.episode = draw(seed, split, self.by)
        self._read(*self._desktop.open([start_of(self.episode, FILES), self._observe()]))
        self._presses = 0
        extras = self._desktop.extras() | {"task": self.episode.kind}
        return self._seen(Turn(self._text(), info={"extras": extras}))

    def _click(self, x: int, y: int) -> Turn:
        click = {"verb": "click", "x": x, "y": y}
        answer, png = self._desktop.do([{"do": "act", "action": click}, self._observe()])
        self._presses += 1
        self._read(answer, png)
        success = display(self._nodes) == self.episode.wanted
        return end(success) if success or "broken" in answer else Turn(self._text())

    def _text(self) -> str:
        return f"task {self.episode.goal} go"

    def _observe(self) -> dict[str, Any]:
        return {"do": "observe", "screenshot": True}

    def _read(self, answer: Mapping[str, Any], png: bytes) -> None:
        self._nodes = answer.get("nodes", ())
        self._take(png)

    def _elements(self) -> Mapping[str, Node]:
        return buttons(self._nodes)

    def _weight(self, name: str) -> float:
        return 1.0 if name in self.episode.goal.split() else OTHER_WEIGHT

    def _solution(self) -> str:
        if self._presses >= len(self.episode.presses):
            raise NotImplementedError(f"`{self.name}` has an oracle from the first turn on only")
        return self.episode.presses[self._presses]

    def screenshot(self) -> Png | None:
        """Return the screen as it is now."""
        return self._desktop.screenshot()

    def close(self) -> None:
        """Release the sandbox."""
        self._desktop.close()
