"""``turnwise/TinyDesktop-v0``: a real calculator on a real desktop, in few words, for policies trained from scratch.

An observation is the goal, the display, and each button by its word, as the accessibility tree lists them:
``task show 4 7 display 0 buttons erase clear … 8 7``. The action ``click 7`` clicks a button with the mouse; ``done``
gives up. The calculator stays open from one episode to the next; the desktop verifies that it looks as at its start.

Reward: 1 once the display shows the wanted number; -0.3 for ``done`` before; -0.05 for an invalid action.

``by`` selects the held-out tasks of ``split="test"``: ``instance`` (other numbers) or ``template`` (addition, which is
never trained on).
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...draws import HELD_OUT_EVERY, draw_for
from ...episode import Turn
from ...options import one_of
from ...spaces import Png
from ..computer.elements import Node, targets
from ..desktop.desktop_session import SPEC, DesktopSession, opening
from ..desktop.task import DesktopTask
from .base import TinyEnv, end, invalid


@dataclass(frozen=True, slots=True)
class Instance:
    """One task: the calculator displays ``start``; it is solved once it displays ``wanted``."""

    kind: str
    goal: str
    start: str
    wanted: str
    presses: tuple[str, ...]
    """Buttons that solve it, by their words."""


KINDS: Mapping[str, tuple[Instance, ...]] = {
    "trained": (
        Instance("show", "show {a}", "0", "{a}", ("{a}",)),
        Instance("show_two", "show {a} {b}", "0", "{a}{b}", ("{a}", "{b}")),
        Instance("append", "show {a} {b}", "{a}", "{a}{b}", ("{b}",)),
        Instance("clear", "clear the display", "{a}{b}", "0", ("clear",)),
        Instance("erase", "erase the last digit", "{a}{b}", "{a}", ("erase",)),
    ),
    "held_out": (Instance("add", "add {b}", "{a}", "{sum}", ("plus", "{b}", "equals")),),
}
"""The kinds of tasks, with places for one or two digits."""


def _filled(kind: Instance, draws: random.Random) -> Instance:
    """Return a task of a kind, with digits from 1 to 9 in its places."""
    a = draws.randrange(1, 10)
    b = draws.randrange(1, 10) if "{b}" in str(kind) else 0
    texts = (kind.goal, kind.start, kind.wanted, *kind.presses)
    goal, start, wanted, *presses = (text.format(a=a, b=b, sum=a + b) for text in texts)
    return Instance(kind.kind, goal, start, wanted, tuple(presses))


def draw(seed: int, split: str, by: str) -> Instance:
    """Return the instance of a seed. With ``by="instance"``, the splits share no instance."""
    draws = random.Random(f"tiny desktop {split} {seed} {by}")  # noqa: S311 - a game, not a secret
    kinds = KINDS["held_out" if by == "template" and split == "test" else "trained"]

    def instance() -> tuple[Instance, bool]:
        drawn = _filled(draws.choice(kinds), draws)
        return drawn, split == "test" if by == "template" else is_held_out(drawn)

    return draw_for(split, instance)


def is_held_out(instance: Instance) -> bool:
    """Return whether an instance belongs to the test split."""
    return random.Random(f"{instance.kind} {instance.start} {instance.wanted}").randrange(HELD_OUT_EVERY) == 0  # noqa: S311


BY = ("instance", "template")
BUTTON_WORDS = {
    "<-": "erase",
    "C": "clear",
    "=": "equals",
    "*": "times",
    "+": "plus",
    "-": "minus",
    "/": "divide",
} | {str(digit): str(digit) for digit in range(10)}
"""By the name of a button; the others are not shown, because some change the calculator for longer than an episode."""
CHARACTER_WORDS = {".": "point", "-": "minus"} | {str(digit): str(digit) for digit in range(10)}
GRAMMAR = ("task", "display", "buttons", "click", "done", "show", "clear", "the", "erase", "last", "digit", "add")
ENDS = ("right", "wrong", "invalid", "other", "ended")
VOCABULARY = tuple(dict.fromkeys((*GRAMMAR, *BUTTON_WORDS.values(), *CHARACTER_WORDS.values(), *ENDS)))
"""In a fixed order: a tiny model's token ids follow it."""
MAX_DISPLAY_WORDS = 14
DISPLAY = ("textbox", "")
UNDO = ({"verb": "click", "name": ("button", "AC")}, {"verb": "click", "name": DISPLAY})
APPLICATION = "galculator"
OTHER_WEIGHT = 0.25
"""Weight of a button whose word the goal does not hold, among the valid actions."""


def start_of(instance: Instance) -> dict[str, Any]:
    """Return the step that opens the calculator and types its start."""
    digits = instance.start if instance.start != "0" else ""
    typed = [{"verb": "click", "name": ("button", digit)} for digit in digits]
    return opening(DesktopTask(instance.goal, (APPLICATION,)), UNDO, typed)


def buttons(nodes: Sequence[Node]) -> dict[str, Node]:
    """Return the buttons that have a word, by their words."""
    return {
        BUTTON_WORDS[node["name"]]: node
        for node in nodes
        if node["role"] == "button" and node["name"] in BUTTON_WORDS and "disabled" not in node.get("flags", ())
    }


def display(nodes: Sequence[Node]) -> str:
    """Return the text on the display; empty if there is none."""
    shown = [str(node.get("value", "")) for node in nodes if (node["role"], node["name"]) == DISPLAY]
    return shown[0].strip() if shown else ""


class TinyDesktopEnv(TinyEnv[Instance]):
    """Show a number on a real calculator, in a closed vocabulary.

    Raises:
        ValueError: ``by`` or, at reset, the split is unknown.
        SandboxError: the sandbox or its driver failed.
    """

    name = "turnwise/TinyDesktop-v0"
    words = VOCABULARY
    max_chars = 4000
    sandboxed = True
    sandbox_memory_mib, sandbox_image = SPEC.memory_mib, SPEC.image
    keeps_sandbox = True

    def __init__(self, by: str = "instance") -> None:
        super().__init__()
        self.by = one_of("by", by, BY, self.name)
        self._desktop = DesktopSession()
        self._nodes: list[Node] = []
        self._presses = 0
        self._view = ""

    @property
    def state_key(self) -> str:
        """Name the display and the buttons."""
        return self._view

    def _begin(self, seed: int, split: str) -> Turn:
        self.episode = instance = draw(seed, split, self.by)
        answer, _ = self._desktop.open([start_of(instance), {"do": "observe"}])
        self._presses = 0
        self._read(answer.get("nodes", ()))
        extras = self._desktop.extras() | {"task": instance.kind}
        return Turn(f"task {instance.goal} {self._view}", info={"extras": extras})

    def _play(self, action: str) -> Turn:
        match action.split():
            case ["done"]:
                return end(False)
            case ["click", word] if word in (shown := buttons(self._nodes)):
                click = {"verb": "click", "id": shown[word]["id"]}
                info = {"targets": targets(click, self._nodes)}
                answer, _ = self._desktop.do([{"do": "act", "action": click}, {"do": "observe"}])
                self._presses += 1
                self._read(answer.get("nodes", ()))
                success = display(self._nodes) == self.episode.wanted
                turn = end(success) if success or "broken" in answer else Turn(self._view)
                return replace(turn, info={**turn.info, **info})
        return invalid(self._view)

    def screenshot(self) -> Png | None:
        """Return the screen as it is now."""
        return self._desktop.screenshot()

    def close(self) -> None:
        """Release the sandbox."""
        self._desktop.close()

    def valid_actions(self) -> list[tuple[str, float]]:
        """Return a click on each button, those of the goal's words first in weight, and ``done``."""
        wanted = self.episode.goal.split()
        weights = {f"click {word}": 1.0 if word in wanted else OTHER_WEIGHT for word in buttons(self._nodes)}
        return [*weights.items(), ("done", OTHER_WEIGHT)]

    def oracle(self) -> str:
        """Return the next action of the solution.

        Raises:
            NotImplementedError: the turns are not those of the solution.
        """
        if self._presses >= len(self.episode.presses):
            raise NotImplementedError(f"`{self.name}` has an oracle from the first turn on only")
        return f"click {self.episode.presses[self._presses]}"

    def _read(self, nodes: Any) -> None:
        self._nodes = list(nodes)
        digits = [CHARACTER_WORDS.get(one, "other") for one in display(self._nodes)[:MAX_DISPLAY_WORDS]]
        self._view = " ".join(["display", *digits, "buttons", *buttons(self._nodes)])
