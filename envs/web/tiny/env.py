"""``turnwise/TinyWeb-v0``: MiniWoB++ tasks in a real browser, in few words, for policies trained from scratch.

The goal, then what can be acted on, each as its role, its name and what it holds:
``task click on the w1 button page button w2 textbox button w1``. Words that the policy does not know are numbered as
they appear, the goal's first (as Hermann et al. 2015, "Teaching machines to read and comprehend", did with names), so
that what is learned is to find and to copy. An element is told by the last word of its line: ``click w1`` acts on the
first so told, ``fill w2 textbox`` on the first that is empty, and writes the word as it was written.

Reward: 1 for success, as MiniWoB++ judges it; -.3 for an end without; -.05 for what does not parse or apply.

``by`` says what ``split="test"`` holds out: ``instance`` (the tasks trained on, other seeds), ``template`` (tasks never
trained on), ``site`` (logging in on the shop, tracker and wiki of ``turnwise/WebApps-v0``).
"""

import random
import re
from collections.abc import Mapping
from typing import Any

from ...base import Image, Info, Obs, TurnEnv
from ...spaces import FreeText
from ..apps.splits import BY
from ..browser_session import Browser
from ..env import SPLITS, BrowserEnv
from ..miniwob.env import SERVER, MiniWoBEnv
from .login import LoginEnv


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


TRAINED = ("click-button", "click-dialog-2", "click-link", "click-option", "enter-text", "login-user")
HELD_OUT = (
    "click-checkboxes-soft",
    "click-tab-2-easy",
    "click-widget",
    "enter-password",
    "enter-text-dynamic",
    "focus-text",
)
WORD = re.compile(r"[\w-]+")
WRONG = -0.3
INVALID = -0.05
MAX_ELEMENTS = 24
MAX_NAME = 6
"""Words of a name that are shown."""
NUMBERED = tuple(f"w{number}" for number in range(1, 49))
TAKES_TEXT = ("textbox", "searchbox", "combobox")
ROLES = ("button", "link", "radio", "checkbox", "clickable", "tab", "option", "menuitem", *TAKES_TEXT)
GRAMMAR = _words(
    "task page click fill on the in box labeled select and submit enter into text field fields press username password"
    " login dialog close cancel ok x with checked selected invalid right wrong other"
)
VOCABULARY = tuple(dict.fromkeys(GRAMMAR + ROLES + NUMBERED))


class TinyWebEnv(TurnEnv):
    """See the module.

    Raises:
        ValueError: ``by`` or, at reset, the split is unknown.
        SandboxError: the world failed.
    """

    sandboxed = True
    keeps_sandbox = True

    def __init__(self, by: str = "instance") -> None:
        if by not in BY:
            raise ValueError(f"tasks cannot be held out by {by!r}; choose from {', '.join(BY)}")
        self.by = by
        self.action_space = FreeText(words=VOCABULARY)
        self.observation_space = FreeText(4000, words=VOCABULARY)
        self._pages = Browser([SERVER])
        self._worlds: dict[str, BrowserEnv] = {}
        self._world: BrowserEnv | None = None

    @property
    def world(self) -> BrowserEnv:
        """What is played.

        Raises:
            RuntimeError: before the first reset.
        """
        if self._world is None:
            raise RuntimeError("turnwise/TinyWeb-v0 was stepped before its first reset")
        return self._world

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        """Draw an instance of ``options["split"]`` (default ``train``) and open it."""
        super().reset(seed=seed)
        split = (options or {}).get("split", "train")
        if split not in SPLITS:
            raise ValueError(f"unknown split {split!r} of turnwise/TinyWeb-v0; choose from {', '.join(SPLITS)}")
        number = int(self.np_random.integers(2**31)) if seed is None else seed
        self._world = world = self._drawn(number, split)
        _, info = world.reset(seed=number, options={"split": split})
        self._words: dict[str, str] = {}
        self._over = False
        self._asked = self._read(world.goal)
        self._view = self._page()
        return f"task {' '.join(self._asked)} page {self._view}".strip(), self._info(info, True, {})

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        """Apply one action's text."""
        world = self.world
        if self._over:
            return "invalid", 0.0, True, False, self._info({}, False, {})
        written = self._written(action)
        if written is None:
            return f"invalid {self._view}".strip(), INVALID, False, False, self._info({}, False, {"invalid": INVALID})
        self._over = True
        _, _, self._over, _, info = world.step(written)
        parts: dict[str, float] = {}
        if not info["action_valid"]:
            parts["invalid"] = INVALID
        if self._over:
            parts |= {"success": 1.0} if info["success"] else {"wrong": WRONG}
            self._view = "right" if info["success"] else "wrong"
        else:
            self._view = self._page()
        text = self._view if info["action_valid"] else f"invalid {self._view}"
        told = self._info(info, info["action_valid"], parts)
        return text.strip(), sum(parts.values()), self._over, False, told

    def screenshot(self) -> Image | None:
        """The page's."""
        return self.world.screenshot()

    def close(self) -> None:
        """Give the sandboxes back."""
        for world in self._worlds.values():
            world.close()

    def valid_actions(self) -> list[tuple[str, float]]:
        """A click on anything, and each word of the goal into each field."""
        known = [word for word in dict.fromkeys(self._asked) if word in NUMBERED]
        listed: dict[str, float] = {}
        for node, told in self._lines():
            field = node["role"] in TAKES_TEXT
            listed.setdefault(f"click {told[-1]}", 0.25 if field else 1.0)
            if field and not node.get("value"):
                listed |= {f"fill {word} {told[-1]}": 1.0 / len(known) for word in known}
        return list(listed.items()) or [("click page", 1.0)]

    def oracle(self) -> str:
        """The right next action in the tasks trained on.

        Raises:
            NotImplementedError: for any other task.
        """
        if not isinstance(self.world, MiniWoBEnv) or self.world.task not in TRAINED:
            raise NotImplementedError("turnwise/TinyWeb-v0 has an oracle for the tasks trained on only")
        asked = re.findall(r'"(.*?)"', self.world.goal) or re.findall(r"Select (.*) and click", self.world.goal)
        fields = [(node, told) for node, told in self._lines() if node["role"] in TAKES_TEXT]
        if self.world.task in ("enter-text", "login-user"):
            for (node, told), text in zip(fields, asked, strict=True):
                if not node.get("value"):
                    return f"fill {self._words[text.lower()]} {told[-1]}"
        for node, told in self._lines():
            named = node["name"] == {"x": "Close"}.get(asked[0], asked[0])
            if node["role"] not in TAKES_TEXT and named and "checked" not in node.get("flags", ()):
                return f"click {told[-1]}"
        return f"click {self._lines()[-1][1][-1]}"

    def vocabulary(self) -> list[str]:
        """The closed set of words of every observation and valid action."""
        return list(VOCABULARY)

    def _drawn(self, seed: int, split: str) -> BrowserEnv:
        if split == "test" and self.by == "site":
            return self._worlds.setdefault("sites", LoginEnv())
        tasks = HELD_OUT if split == "test" and self.by == "template" else TRAINED
        name = random.Random(f"{split} {seed} {self.by}").choice(tasks)  # noqa: S311 - a game, not a secret
        if name not in self._worlds:
            self._worlds[name] = MiniWoBEnv(name)
            self._worlds[name].browser = self._pages
        return self._worlds[name]

    def _elements(self) -> list[Mapping[str, Any]]:
        """What can be acted on, as far as it is shown."""
        shown = [
            node
            for node in self.world.nodes
            if node["role"] in ROLES and "id" in node and (node["name"] or node["role"] != "clickable")
        ]
        return shown[:MAX_ELEMENTS]

    def _page(self) -> str:
        return " ".join(word for _, told in self._lines() for word in told)

    def _lines(self) -> list[tuple[Mapping[str, Any], list[str]]]:
        """Each element with its words."""
        return [(node, self._tell(node)) for node in self._elements()]

    def _tell(self, node: Mapping[str, Any]) -> list[str]:
        value = node.get("value", "")
        held = ["with", *self._read(value)[:MAX_NAME]] if value and value != node["name"] else []
        flags = [flag for flag in node.get("flags", ()) if flag in ("checked", "selected")]
        return [node["role"], *held, *flags, *self._read(node["name"])[:MAX_NAME]]

    def _read(self, text: str) -> list[str]:
        """The words of a text, those that are not known numbered."""
        found = []
        for word in WORD.findall(text.lower()):
            if word in GRAMMAR or word in ROLES:
                found.append(word)
            elif word in self._words or len(self._words) < len(NUMBERED):
                found.append(self._words.setdefault(word, NUMBERED[min(len(self._words), len(NUMBERED) - 1)]))
            else:
                found.append("other")
        return found

    def _written(self, action: str) -> str | None:
        """An action as the browser's environment reads it; None if it is none."""
        match action.split():
            case ["click", word]:
                found = self._called(word)
                return f"click({found[0]['id']})" if found else None
            case ["fill", word, field] if word in self._words.values():
                found = [node for node in self._called(field) if node["role"] in TAKES_TEXT and not node.get("value")]
                if not found:
                    return None
                (asked,) = (text for text, name in self._words.items() if name == word)
                as_written = re.search(rf"\b{re.escape(asked)}\b", self.world.goal, re.IGNORECASE)
                return f"fill({found[0]['id']}, {(as_written.group() if as_written else asked)!r})"
        return None

    def _called(self, word: str) -> list[Mapping[str, Any]]:
        return [node for node, told in self._lines() if told[-1] == word]

    def _info(self, info: Mapping[str, Any], valid: bool, parts: dict[str, float]) -> Info:
        task = self.world.task if isinstance(self.world, MiniWoBEnv) else "login"
        told = {"extras": info["extras"] | {"task": task}} if "extras" in info else {}
        success = bool(info.get("success"))
        return {
            "action_valid": valid,
            "state_key": self._view,
            "env_error": None,
            "success": success,
            "reward_parts": parts,
            **told,
        }
