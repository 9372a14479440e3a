"""An episode in a browser: what holds for MiniWoB++, for our sites and for a user's own.

Whoever inherits says where an episode begins (``begin``) and what an action came to (``judge``). The observation is
the page as numbered text, a screenshot, or both. What the agent's own action did to its browser (an endless script, a
crash) is an outcome: the page is closed, the agent reads so, and the episode is judged as it then stands.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from io import BytesIO
from typing import Any, Literal

import numpy as np

from ..base import Image, Info, Obs, TurnEnv
from ..computer.marks import marked
from ..computer.text_tree import page
from ..spaces import FreeText
from .actions import ANSWER, USAGE, Action, InvalidAction, parse
from .browser_session import Browser

Seen = Literal["text", "screenshot", "both"]
SEEN: tuple[Seen, ...] = ("text", "screenshot", "both")
SPLITS = ("train", "test")
FIELDS = ("textbox", "searchbox", "spinbutton")
CLOSED = frozenset(("disabled", "readonly"))
PRESSED = ("button", "link", "clickable", "radio", "checkbox", "tab", "option", "menuitem")


@dataclass(frozen=True, slots=True)
class Begin:
    """Where an episode begins."""

    goal: str
    """What is asked; empty if the last of ``scripts`` says it."""
    url: str
    origins: tuple[str, ...]
    """Where ``goto`` may go."""
    keep: bool = False
    """Whether the page may serve one episode after the other as long as none leaves it: ``scripts`` begin it anew."""
    scripts: tuple[str, ...] = ()
    """Run in the page before it is first looked at; the last one's value, if it is a text, is the goal."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What an action came to."""

    parts: Mapping[str, float] = field(default_factory=dict)
    """The reward, by name."""
    over: bool = False
    success: bool = False


class BrowserEnv(TurnEnv):
    """See the module. ``observation``: ``text``, ``screenshot`` or ``both``; ``marks``: whether screenshots carry the
    numbers of the elements; sizes are in CSS pixels.

    Raises:
        ValueError: an option or, at reset, the split is unknown.
        SandboxError: the world failed.
    """

    sandboxed = True
    keeps_sandbox = True
    width, height = 640, 480

    def __init__(self, browser: Browser, observation: Seen = "text", marks: bool = False) -> None:
        if observation not in SEEN:
            raise ValueError(f"unknown observation {observation!r}; choose from {', '.join(SEEN)}")
        if not isinstance(marks, bool):
            raise ValueError(f"marks is true or false, not {marks!r}")
        if marks and observation == "text":
            raise ValueError('marks are drawn on screenshots: choose observation "screenshot" or "both"')
        self.browser = browser
        self.observation = observation
        self.marks = marks
        self.action_space = FreeText()
        self.observation_space = FreeText(200_000)
        self.nodes: list[Mapping[str, Any]] = []
        """What was last seen, as ``driver.observe`` tells it."""
        self.goal = ""
        """What the current episode asks."""
        self._begin: Begin | None = None
        self._over = True
        self._state = ""

    def begin(self, seed: int, split: str) -> Begin:
        """Draw an instance."""
        raise NotImplementedError(f"{type(self).__name__} has no begin(seed, split)")

    def judge(self, action: Action | None, answer: Mapping[str, Any]) -> Judged:
        """What an action (None: one that could not be read) came to; ``answer`` is the browser's, ``values`` those of
        ``judging``.
        """
        raise NotImplementedError(f"{type(self).__name__} has no judge(action, answer)")

    def judging(self) -> tuple[str, ...]:
        """Scripts to run in the page after each action, for ``judge``."""
        return ()

    def instructions(self) -> str:
        """How to act."""
        usage = "\n".join(USAGE.values())
        return f"You use a web browser. Do what is asked. Each turn, write one action as the last line:\n{usage}"

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        """Draw an instance of ``options["split"]`` (default ``train``) and open it in a new browser context."""
        super().reset(seed=seed)
        split = (options or {}).get("split", "train")
        if split not in SPLITS:
            raise ValueError(f"unknown split {split!r} of {type(self).__name__}; choose from {', '.join(SPLITS)}")
        number = int(self.np_random.integers(2**31)) if seed is None else seed
        self._begin = begin = self.begin(number, split)
        opened = {"do": "open", "url": begin.url, "keep": begin.keep, "width": self.width, "height": self.height}
        last = len(begin.scripts) - 1
        scripts = [{"do": "script", "script": one, "settle": at == last} for at, one in enumerate(begin.scripts)]
        answer, shot = self.browser.open([opened, *scripts, self._look()])
        self._over = False
        values = [value for value in answer.get("values", ()) if isinstance(value, str)]
        self.goal = begin.goal or (values[-1] if values else "")
        box = self.browser.box
        extras = {"sandbox": {"image": box.spec.image, "digest": box.digest}} if box else {}
        seen = self._seen(f"goal: {self.goal}", answer, shot)
        return seen, self._info(True, {}, False) | {"extras": extras}

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        """Apply one action's text."""
        if self._begin is None:
            raise RuntimeError(f"{type(self).__name__} was stepped before its first reset")
        if self._over:
            return "ended", 0.0, True, False, self._info(False, {}, False)
        asked = parse(action, self._begin.origins)
        steps: list[dict[str, Any]] = []
        if isinstance(asked, Action) and asked.verb != ANSWER:
            steps.append({"do": "act", "action": asked.as_request()})
        steps += [{"do": "script", "script": one} for one in self.judging()]
        # An episode that the world ends is not gone on with.
        self._over = True
        answer, shot = self.browser.do([*steps, self._look()])
        done = asked if isinstance(asked, Action) else None
        judged = self.judge(done, answer)
        self._over = judged.over or (done is not None and done.verb == ANSWER) or "broken" in answer
        trouble = asked.message if isinstance(asked, InvalidAction) else answer.get("refused", "")
        said = f"error: {trouble}" if trouble else ""
        if "lost" in answer:
            said = f"error: {answer['lost']}"
        seen = self._seen(said, answer, shot)
        info = self._info(not trouble, judged.parts, judged.success)
        return seen, float(sum(judged.parts.values())), self._over, False, info

    def valid_actions(self) -> list[tuple[str, float]]:
        """What applies to the elements in view, a text into each field, and an answer that says nothing."""
        listed: dict[str, float] = {}
        for node in self.nodes:
            if "id" in node and node.get("seen") and not CLOSED & set(node.get("flags", ())):
                if node["role"] in FIELDS:
                    listed[f'fill({node["id"]}, "text")'] = 1.0
                elif node["role"] in PRESSED or node.get("heard"):
                    listed[f"click({node['id']})"] = 1.0
        return [*listed.items(), (f'{ANSWER}("")', 0.2)]

    def screenshot(self) -> Image | None:
        """The window as it is now; None where it cannot be had."""
        _, shot = self.browser.do([{"do": "look", "tree": False, "screenshot": True, "notes": False}])
        return pixels(shot) if shot else None

    def close(self) -> None:
        """Give the sandbox back."""
        self.browser.close()

    def _look(self) -> dict[str, Any]:
        return {
            "do": "look",
            "tree": self.observation != "screenshot" or self.marks,
            "screenshot": self.observation != "text",
        }

    def _seen(self, said: str, answer: Mapping[str, Any], shot: bytes) -> Obs:
        self.nodes = list(answer.get("nodes", ()))
        shown = page(answer)
        self._state = sha256(shot if self.observation == "screenshot" else shown.encode()).hexdigest()[:16]
        shown = shown if self.observation != "screenshot" else ""
        text = "\n".join(part for part in (said, shown) if part)
        if self.observation == "text":
            return text
        image = pixels(shot) if shot else np.zeros((self.height, self.width, 3), np.uint8)
        return {"text": text, "image": marked(image, self.nodes) if self.marks else image}

    def _info(self, valid: bool, parts: Mapping[str, float], success: bool) -> Info:
        return {
            "action_valid": valid,
            "state_key": self._state,
            "env_error": None,
            "success": success,
            "reward_parts": dict(parts),
        }


def pixels(png: bytes) -> Image:
    """A PNG as an array of height x width x 3."""
    from PIL import Image as Pillow

    with Pillow.open(BytesIO(png)) as opened:
        return np.asarray(opened.convert("RGB"))
