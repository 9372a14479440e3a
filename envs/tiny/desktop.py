"""``turnwise/TinyDesktop-v0``: a real calculator on a real desktop, in few words, for policies trained from scratch.

An observation is the goal, the display, and each button by its word, as the accessibility tree lists them:
``task show 4 7 display 0 buttons erase clear … 8 7``. The action ``click 7`` clicks a button with the mouse; ``done``
gives up. The calculator stays open from one episode to the next; the desktop verifies that it looks as at its start.

Reward: 1 once the display shows the wanted number; -0.3 for ``done`` before; -0.05 for an invalid action.

``by`` selects the held-out tasks of ``split="test"``: ``instance`` (other numbers) or ``template`` (addition, which is
never trained on).
"""

from typing import Any

from ..base import Info, Obs, TurnEnv, seed_and_split
from ..computer.elements import Node
from ..spaces import FreeText, Png
from ..desktop.desktop_session import SPEC, DesktopSession, opening
from ..desktop.task import DesktopTask
from .desktop_tasks import Instance, draw

BY = ("instance", "template")
FAILURE_REWARD = -0.3
INVALID_REWARD = -0.05
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
ENDS = ("right", "wrong", "invalid", "other")
VOCABULARY = tuple(dict.fromkeys((*GRAMMAR, *BUTTON_WORDS.values(), *CHARACTER_WORDS.values(), *ENDS)))
"""In a fixed order: a tiny model's token ids follow it."""
MAX_DISPLAY_WORDS = 14
DISPLAY = ("textbox", "")
UNDO = ({"verb": "click", "name": ("button", "AC")}, {"verb": "click", "name": DISPLAY})
APPLICATION = "galculator"
OTHER_WEIGHT = 0.25
"""Weight of a button whose word the goal does not hold, among the valid actions."""


class TinyDesktopEnv(TurnEnv):
    """A calculator's tasks in a closed vocabulary.

    Raises:
        ValueError: ``by`` or, at reset, the split is unknown.
        SandboxError: the sandbox or its driver failed.
    """

    sandboxed = True
    sandbox_memory_mib, sandbox_image = SPEC.memory_mib, SPEC.image
    keeps_sandbox = True

    def __init__(self, by: str = "instance") -> None:
        if by not in BY:
            raise ValueError(f"unknown `by` {by!r}; choose from {', '.join(BY)}")
        self.by = by
        self.action_space = FreeText(words=VOCABULARY)
        self.observation_space = FreeText(4000, words=VOCABULARY)
        self._desktop = DesktopSession()
        self._nodes: list[Node] = []
        self._instance: Instance | None = None
        self._over = True
        self._shown = ""
        self._turn = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        """Draw an instance of ``options["split"]`` (default ``train``) and type its first number."""
        super().reset(seed=seed)
        number, split = seed_and_split(self, seed, options)
        self._instance = instance = draw(number, split, self.by)
        digits = instance.start if instance.start != "0" else ""
        typed = [{"verb": "click", "name": ("button", digit)} for digit in digits]
        start = opening(DesktopTask(instance.goal, (APPLICATION,)), UNDO, typed)
        answer, _ = self._desktop.open([start, {"do": "observe"}])
        self._over, self._turn = False, 0
        self._read(answer.get("nodes", ()))
        extras = self._desktop.extras() | {"task": instance.kind}
        return f"task {instance.goal} {self._shown}", self._info(True, {}, False) | {"extras": extras}

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        """Click one button, or give up."""
        if self._instance is None:
            raise RuntimeError("`turnwise/TinyDesktop-v0` was stepped before its first reset; call `reset` first")
        if self._over:
            return "invalid", 0.0, True, False, self._info(False, {}, False)
        reward_parts: dict[str, float] = {}
        words = action.split()
        node = self._buttons().get(words[1]) if len(words) == 2 and words[0] == "click" else None
        if words != ["done"] and node is None:
            reward_parts["invalid"] = INVALID_REWARD
            return f"invalid {self._shown}", INVALID_REWARD, False, False, self._info(False, reward_parts, False)
        self._over = True
        self._turn += 1
        success = False
        if node is not None:
            answer, _ = self._desktop.do(
                [{"do": "act", "action": {"verb": "click", "id": node["id"]}}, {"do": "observe"}]
            )
            self._read(answer.get("nodes", ()))
            success = self._display() == self._instance.wanted
            self._over = success or "broken" in answer
        if self._over:
            reward_parts |= {"success": 1.0} if success else {"wrong": FAILURE_REWARD}
            self._shown = "right" if success else "wrong"
        return self._shown, sum(reward_parts.values()), self._over, False, self._info(True, reward_parts, success)

    def screenshot(self) -> Png | None:
        """Return the screen as it is now."""
        return self._desktop.screenshot()

    def close(self) -> None:
        """Release the sandbox."""
        self._desktop.close()

    def valid_actions(self) -> list[tuple[str, float]]:
        """Return a click on each button, those of the goal's words first in weight, and ``done``."""
        wanted = self._instance.goal.split() if self._instance is not None else []
        weights = {f"click {word}": 1.0 if word in wanted else OTHER_WEIGHT for word in self._buttons()}
        return [*weights.items(), ("done", OTHER_WEIGHT)]

    def oracle(self) -> str:
        """Return the next action of the solution.

        Raises:
            NotImplementedError: no episode runs, or its turns are not those of the solution.
        """
        if self._instance is None or self._turn >= len(self._instance.presses):
            raise NotImplementedError("turnwise/TinyDesktop-v0 has an oracle from the first turn on only")
        return f"click {self._instance.presses[self._turn]}"

    def vocabulary(self) -> list[str]:
        """Return the words of every observation and valid action."""
        return list(VOCABULARY)

    def _read(self, nodes: Any) -> None:
        self._nodes = list(nodes)
        digits = [CHARACTER_WORDS.get(one, "other") for one in self._display()[:MAX_DISPLAY_WORDS]]
        self._shown = " ".join(["display", *digits, "buttons", *self._buttons()])

    def _buttons(self) -> dict[str, Node]:
        return {
            BUTTON_WORDS[node["name"]]: node
            for node in self._nodes
            if node["role"] == "button" and node["name"] in BUTTON_WORDS and "disabled" not in node.get("flags", ())
        }

    def _display(self) -> str:
        shown = [str(node.get("value", "")) for node in self._nodes if (node["role"], node["name"]) == DISPLAY]
        return shown[0].strip() if shown else ""

    def _info(self, valid: bool, reward_parts: dict[str, float], success: bool) -> Info:
        return {
            "action_valid": valid,
            "state_key": self._shown,
            "env_error": None,
            "success": success,
            "reward_parts": reward_parts,
        }
