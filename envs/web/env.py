"""An episode in a browser: what MiniWoB++, the web apps and custom sites share.

A subclass states where an episode starts (``start_episode``) and what an action achieved (``evaluate``). The
observation is the page as numbered text, a screenshot, or both. Damage that an action does to the agent's own browser
(an endless script, a crash) is an outcome: the page is closed, the observation reports it, and the episode is graded.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Literal

import numpy as np
from gymnasium.spaces import Dict

from ..base import Info, Obs, TurnEnv
from ..computer.elements import CLICKABLE_ROLES, LOCKED_FLAGS, TEXT_ROLES, Node, in_viewport
from ..computer.marks import draw_marks
from ..computer.text_tree import render
from ..spaces import FreeText, Png, PngSpace
from .actions import ANSWER, USAGE, Action, InvalidAction, parse
from .browser_session import SPEC, BrowserSession

ObservationMode = Literal["text", "screenshot", "both"]
OBSERVATION_MODES: tuple[ObservationMode, ...] = ("text", "screenshot", "both")
SPLITS = ("train", "test")
MAX_OBSERVATION_CHARS = 200_000


@dataclass(frozen=True, slots=True)
class EpisodeStart:
    """The start of an episode: the goal, the address to open, and the scripts to run in the page."""

    goal: str
    """The task for the agent; if empty, the value of the last of ``scripts``."""
    url: str
    origins: tuple[str, ...]
    """The origins that ``goto`` accepts."""
    reusable: bool = False
    """Whether an unharmed page may serve the next episode at this address; ``scripts`` then reset it in place."""
    scripts: tuple[str, ...] = ()
    """JavaScript to run in the page before the first observation."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The evaluation of a page after an action."""

    reward_parts: Mapping[str, float] = field(default_factory=dict)
    over: bool = False
    success: bool = False


class BrowserEnv(TurnEnv):
    """The base class of environments in a browser.

    ``observation`` is ``text``, ``screenshot`` or ``both``; ``marks`` draws the numbers of the elements on screenshots;
    ``width`` and ``height`` of the window are CSS pixels.

    Raises:
        ValueError: an option or, at reset, the split is unknown.
        SandboxError: the sandbox or its driver failed.
    """

    sandboxed = True
    sandbox_memory_mib = SPEC.memory_mib
    keeps_sandbox = True
    width, height = 640, 480

    def __init__(self, browser: BrowserSession, observation: ObservationMode = "text", marks: bool = False) -> None:
        if observation not in OBSERVATION_MODES:
            raise ValueError(f"unknown `observation` {observation!r}; choose from {', '.join(OBSERVATION_MODES)}")
        if not isinstance(marks, bool):
            raise ValueError(f"`marks` must be true or false, not {marks!r}")
        if marks and observation == "text":
            raise ValueError('`marks` are drawn on screenshots; set `observation` to "screenshot" or "both"')
        self.browser = browser
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
        self.goal = ""
        """The goal of the current episode."""
        self._start: EpisodeStart | None = None
        self._over = True
        self._state_key = ""

    def start_episode(self, seed: int, split: str) -> EpisodeStart:
        """Draw an instance of the task."""
        raise NotImplementedError(f"{type(self).__name__} does not implement start_episode(seed, split)")

    def evaluate(self, action: Action | None, answer: Mapping[str, Any]) -> Verdict:
        """Return the verdict after an action; None stands for an invalid one.

        ``answer`` is the driver's answer; its ``values`` are the results of ``evaluation_scripts``.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement evaluate(action, answer)")

    def evaluation_scripts(self) -> tuple[str, ...]:
        """Return JavaScript expressions to evaluate in the page after each action, for ``evaluate``."""
        return ()

    def instructions(self) -> str:
        """Return the description of the task and of the actions."""
        usage = "\n".join(USAGE.values())
        return f"You control a web browser to complete a task. End each turn with one action on the last line:\n{usage}"

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        """Draw an instance of ``options["split"]`` (default ``train``) and open it in a new browser context."""
        super().reset(seed=seed)
        split = (options or {}).get("split", "train")
        if split not in SPLITS:
            raise ValueError(f"unknown split {split!r} of {type(self).__name__}; choose from {', '.join(SPLITS)}")
        number = int(self.np_random.integers(2**31)) if seed is None else seed
        self._start = start = self.start_episode(number, split)
        opening = {"do": "open", "url": start.url, "reusable": start.reusable}
        opening |= {"width": self.width, "height": self.height}
        last = len(start.scripts) - 1
        scripts = [
            {"do": "script", "script": script, "settle": index == last} for index, script in enumerate(start.scripts)
        ]
        answer, png = self.browser.open([opening, *scripts, self._observe_step()])
        self._over = False
        values = [value for value in answer.get("values", ()) if isinstance(value, str)]
        self.goal = start.goal or (values[-1] if values else "")
        sandbox = self.browser.sandbox
        extras = {"sandbox": {"image": sandbox.spec.image, "digest": sandbox.digest}} if sandbox else {}
        observation = self._observation(f"goal: {self.goal}", answer, png)
        return observation, self._info(True, {}, False) | {"extras": extras}

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        """Apply the action on the last line of the text."""
        if self._start is None:
            raise RuntimeError(f"`{type(self).__name__}` was stepped before its first reset; call `reset` first")
        if self._over:
            return "ended", 0.0, True, False, self._info(False, {}, False)
        parsed = parse(action, self._start.origins)
        executed = parsed if isinstance(parsed, Action) else None
        answered = executed is not None and executed.verb == ANSWER
        steps: list[dict[str, Any]] = []
        if executed is not None and not answered:
            steps.append({"do": "act", "action": executed.as_request()})
        steps += [{"do": "script", "script": script} for script in self.evaluation_scripts()]
        # An episode whose sandbox fails in the next line cannot be stepped again.
        self._over = True
        answer, png = self.browser.do([*steps, self._observe_step()])
        verdict = self.evaluate(executed, answer)
        self._over = verdict.over or answered or "broken" in answer
        error = parsed.message if isinstance(parsed, InvalidAction) else answer.get("refused", "")
        shown_error = answer.get("lost", error)
        observation = self._observation(f"error: {shown_error}" if shown_error else "", answer, png)
        info = self._info(not error, verdict.reward_parts, verdict.success)
        return observation, float(sum(verdict.reward_parts.values())), self._over, False, info

    def valid_actions(self) -> list[tuple[str, float]]:
        """Return a click on, or a text into, each element in view, and an empty answer, each with a weight."""
        actions: dict[str, float] = {}
        for node in self.nodes:
            if in_viewport(node) and not LOCKED_FLAGS & set(node.get("flags", ())):
                if node["role"] in TEXT_ROLES:
                    actions[f'fill({node["id"]}, "text")'] = 1.0
                elif node["role"] in CLICKABLE_ROLES or node.get("clickable"):
                    actions[f"click({node['id']})"] = 1.0
        return [*actions.items(), (f'{ANSWER}("")', 0.2)]

    def screenshot(self) -> Png | None:
        """Return the window as it is now; None if there is no screenshot."""
        _, png = self.browser.do([{"do": "observe", "tree": False, "screenshot": True, "notes": False}])
        return Png(png) if png else None

    def close(self) -> None:
        """Release the sandbox."""
        self.browser.close()

    def _observe_step(self) -> dict[str, Any]:
        return {
            "do": "observe",
            "tree": self.observation != "screenshot" or self.marks,
            "screenshot": self.observation != "text",
        }

    def _observation(self, message: str, answer: Mapping[str, Any], png: bytes) -> Obs:
        self.nodes = list(answer.get("nodes", ()))
        page = render(answer)
        # Chromium of one image makes the same file for the same pixels, so the file names the state.
        self._state_key = sha256(png if self.observation == "screenshot" else page.encode()).hexdigest()[:16]
        text = "\n".join(part for part in (message, page if self.observation != "screenshot" else "") if part)
        if self.observation == "text":
            return text
        return {"text": text, "image": self._image(png)}

    def _image(self, png: bytes) -> Png:
        """Return the browser's screenshot, with marks if they are on; a black picture if there is none."""
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
