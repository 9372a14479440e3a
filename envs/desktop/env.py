"""An episode on a desktop: what task templates, custom tasks and the tiny environment share.

A subclass states how an episode starts (``start_episode``) and whether its end is a success (``check``). The
observation is the tree of elements as numbered text, a screenshot, or both. Damage that an action does to the agent's
own desktop (a crash, a dialog, an endless loop, a full disk) is an outcome: the observation reports it.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Literal

import numpy as np
from gymnasium.spaces import Dict

from ..base import Info, Obs, TurnEnv
from ..computer.calls import Action, InvalidAction
from ..computer.elements import Node, in_viewport
from ..computer.marks import draw_marks
from ..computer.text_tree import render
from ..spaces import FreeText, Png, PngSpace
from .actions import DONE, FAIL, USAGE, parse
from .desktop_session import DesktopSession, opening
from .oracle import resolve
from .task import DesktopTask, EndState, Window

ObservationMode = Literal["text", "screenshot", "both"]
OBSERVATION_MODES: tuple[ObservationMode, ...] = ("text", "screenshot", "both")
SPLITS = ("train", "test")
MAX_OBSERVATION_CHARS = 200_000
CLICKABLE_ROLES = (
    *("button", "cell", "checkbox", "combobox", "link", "listitem", "menuitem", "menuitemcheckbox", "menuitemradio"),
    *("radio", "row", "switch", "tab", "textbox", "treeitem"),
)


class DesktopEnv(TurnEnv):
    """The base class of environments on a desktop of 1024 x 768 pixels.

    ``observation`` is ``text``, ``screenshot`` or ``both``; ``marks`` draws the numbers of the elements on screenshots.

    Raises:
        ValueError: an option or, at reset, the split is unknown.
        SandboxError: the sandbox or its driver failed.
    """

    sandboxed = True
    keeps_sandbox = True
    width, height = 1024, 768
    undo: Sequence[Mapping[str, Any]] | None = None
    """Actions of the driver that undo an episode in place, for applications that then stay open; None: none do."""

    def __init__(self, observation: ObservationMode = "text", marks: bool = False) -> None:
        if observation not in OBSERVATION_MODES:
            raise ValueError(f"unknown `observation` {observation!r}; choose from {', '.join(OBSERVATION_MODES)}")
        if not isinstance(marks, bool):
            raise ValueError(f"`marks` must be true or false, not {marks!r}")
        if marks and observation == "text":
            raise ValueError('`marks` are drawn on screenshots; set `observation` to "screenshot" or "both"')
        self.desktop = DesktopSession()
        self.observation = observation
        self.marks = marks
        self.action_space = FreeText()
        text_space = FreeText(MAX_OBSERVATION_CHARS)
        self.observation_space = (
            text_space
            if observation == "text"
            else Dict({"text": text_space, "image": PngSpace(self.width, self.height)})
        )
        self.nodes: list[Node] = []
        """The nodes of the last observation."""
        self.current: DesktopTask | None = None
        """The task of the current episode."""
        self._over = True
        self._turn = 0
        self._state_key = ""

    def start_episode(self, seed: int, split: str) -> DesktopTask:
        """Draw an instance of the task."""
        raise NotImplementedError(f"{type(self).__name__} does not implement start_episode(seed, split)")

    def check(self, end: EndState) -> bool:
        """Return whether the task is solved."""
        raise NotImplementedError(f"{type(self).__name__} does not implement check(end)")

    def instructions(self) -> str:
        """Return the description of the task and of the actions."""
        usage = "\n".join(USAGE.values())
        return (
            "You control a desktop with a mouse and a keyboard to complete a task. End each turn with one action on "
            f"the last line:\n{usage}"
        )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        """Draw an instance of ``options["split"]`` (default ``train``) and open its applications."""
        super().reset(seed=seed)
        split = (options or {}).get("split", "train")
        if split not in SPLITS:
            raise ValueError(f"unknown split {split!r} of {type(self).__name__}; choose from {', '.join(SPLITS)}")
        number = int(self.np_random.integers(2**31)) if seed is None else seed
        self.current = task = self.start_episode(number, split)
        answer, png = self.desktop.open([opening(task, self.undo), self._observe_step()])
        self._over, self._turn = False, 0
        sandbox = self.desktop.sandbox
        extras = {"sandbox": {"image": sandbox.spec.image, "digest": sandbox.digest}} if sandbox else {}
        observation = self._observation(f"goal: {task.goal}", answer, png)
        return observation, self._info(True, {}, False) | {"extras": extras}

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        """Apply the action on the last line of the text."""
        if self.current is None:
            raise RuntimeError(f"`{type(self).__name__}` was stepped before its first reset; call `reset` first")
        if self._over:
            return self._ended(), 0.0, True, False, self._info(False, {}, False)
        parsed = parse(action)
        actions = [] if isinstance(parsed, InvalidAction) else list(parsed)
        last = actions[-1] if actions and actions[-1].verb in (DONE, FAIL) else None
        steps = [{"do": "act", "action": one.as_request()} for one in actions if one.verb not in (DONE, FAIL)]
        if last is not None:
            # What the last actions started, such as saving a file, counts.
            steps.append({"do": "settle"})
        # An episode whose sandbox fails in the next line cannot be stepped again.
        self._over = True
        answer, png = self.desktop.do([*steps, self._observe_step() | {"windows": last is not None}])
        self._turn += 1
        self._over = last is not None or "broken" in answer
        success = self._over and self._success(last, answer)
        error = parsed.message if isinstance(parsed, InvalidAction) else answer.get("refused", "")
        shown_error = answer.get("lost", error)
        observation = self._observation(f"error: {shown_error}" if shown_error else "", answer, png)
        reward_parts = {"success": 1.0} if success else {}
        info = self._info(not error, reward_parts, success)
        return observation, float(sum(reward_parts.values())), self._over, False, info

    def oracle(self) -> str:
        """Return the next action of the task's oracle.

        Raises:
            NotImplementedError: the task has no oracle.
            LookupError: the action names an element that is not in view.
        """
        if self.current is None or self._turn >= len(self.current.oracle):
            raise NotImplementedError(f"the task of `{type(self).__name__}` has no oracle for this turn")
        return resolve(self.current.oracle[self._turn], self.nodes)

    def valid_actions(self) -> list[tuple[str, float]]:
        """Return a click on each element in view, some keys, a text, and the end of the episode, each with a weight."""
        actions: dict[str, float] = {}
        for node in self.nodes:
            if in_viewport(node) and node["role"] in CLICKABLE_ROLES and not {"disabled"} & set(node.get("flags", ())):
                actions[f"click({node['id']})"] = 1.0
        keys = {f'press("{key}")': 0.3 for key in ("Return", "Escape", "Tab", "Down")}
        return [*(actions | keys).items(), ('type("text")', 0.3), (f"{DONE}()", 0.2)]

    def screenshot(self) -> Png | None:
        """Return the screen as it is now; None if there is no desktop."""
        _, png = self.desktop.do([{"do": "observe", "tree": False, "screenshot": True}])
        return Png(png) if png else None

    def close(self) -> None:
        """Release the sandbox."""
        self.desktop.close()

    def _success(self, last: Action | None, answer: Mapping[str, Any]) -> bool:
        """Check the world at the end; a home folder that cannot be read is a failure of the agent."""
        home = self.desktop.home()
        if home is None or self.current is None:
            return False
        files, folders = home
        windows = tuple(
            Window(one["title"], one["application"], tuple(one["rect"]), one["focused"])
            for one in answer.get("windows", ())
        )
        text = str(last.arguments["text"]) if last is not None and last.verb == DONE else ""
        gave_up = last is not None and last.verb == FAIL
        nodes = answer.get("nodes", ())
        return bool(self.check(EndState(self.current, files, folders, windows, nodes, text, gave_up)))

    def _ended(self) -> Obs:
        black = np.zeros((self.height, self.width, 3), np.uint8)
        return "ended" if self.observation == "text" else {"text": "ended", "image": Png.encode(black)}

    def _observe_step(self) -> dict[str, Any]:
        return {
            "do": "observe",
            "tree": self.observation != "screenshot" or self.marks,
            "screenshot": self.observation != "text",
        }

    def _observation(self, message: str, answer: Mapping[str, Any], png: bytes) -> Obs:
        self.nodes = list(answer.get("nodes", ()))
        shown = {key: answer.get(key, ()) for key in ("nodes", "notes")}
        page = render(shown if self.observation != "screenshot" else {"notes": shown["notes"]})
        self._state_key = sha256(png if self.observation == "screenshot" else page.encode()).hexdigest()[:16]
        text = "\n".join(part for part in (message, page) if part)
        if self.observation == "text":
            return text
        return {"text": text, "image": self._image(png)}

    def _image(self, png: bytes) -> Png:
        """Return the screenshot, with marks if they are on; a black picture if there is none."""
        if not png:
            return Png.encode(np.zeros((self.height, self.width, 3), np.uint8))
        image = Png(png)
        return Png.encode(draw_marks(image.pixels(), self.nodes)) if self.marks else image

    def _info(self, valid: bool, reward_parts: Mapping[str, float], success: bool) -> Info:
        return {
            "action_valid": valid,
            "state_key": self._state_key,
            "env_error": None,
            "success": success,
            "reward_parts": dict(reward_parts),
        }
