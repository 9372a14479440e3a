"""``turnwise/TinyWeb-v0``: MiniWoB++ tasks in a real browser, in few words, for policies trained from scratch.

An observation is the goal and then each element that accepts actions as role, value and name:
``task click on the w1 button page button w2 textbox button w1``. Words outside the vocabulary are numbered in order of
appearance, the goal's first (Hermann et al. 2015, "Teaching machines to read and comprehend", did so with names): the
policy learns to find and to copy, not to spell.

Actions address an element by the last word of its text. ``click w1`` clicks the first such element. ``fill w2 textbox``
writes the word w2, as the goal spells it, into the first such field that is empty.

Reward: 1 for success, as MiniWoB++ scores it; -0.3 for an end without success; -0.05 for an invalid action.

``by`` selects the held-out tasks of ``split="test"``: ``instance`` (other seeds of the trained tasks), ``template``
(tasks that are never trained on) or ``site`` (logging in to the apps of ``turnwise/WebApps-v0``).
"""

import random
import re
from collections.abc import Mapping
from typing import Any

from ..base import Info, Obs, TurnEnv, seed_and_split
from ..computer.elements import CLICKABLE_ROLES, Node
from ..spaces import FreeText, Png
from ..web.apps.splits import APP_SPLITS
from ..web.browser_session import SPEC, BrowserSession
from ..web.env import BrowserEnv
from ..web.miniwob.env import SERVER, MiniWoBEnv
from .web_login import LoginEnv


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
FAILURE_REWARD = -0.3
INVALID_REWARD = -0.05
MAX_ELEMENTS = 24
MAX_NAME_WORDS = 6
NUMBERED = tuple(f"w{number}" for number in range(1, 49))
FIELD_ROLES = ("textbox", "searchbox", "combobox")
ROLES = (*CLICKABLE_ROLES, *FIELD_ROLES)
GRAMMAR = _words(
    "task page click fill on the in box labeled select and submit enter into text field fields press username password"
    " login dialog close cancel ok x with checked selected invalid right wrong other"
)
VOCABULARY = tuple(dict.fromkeys(GRAMMAR + ROLES + NUMBERED))
"""In a fixed order: a tiny model's token ids follow it."""


class TinyWebEnv(TurnEnv):
    """Tasks of MiniWoB++ in a closed vocabulary.

    Raises:
        ValueError: ``by`` or, at reset, the split is unknown.
        SandboxError: the sandbox or its driver failed.
    """

    sandboxed = True
    sandbox_memory_mib, sandbox_image = SPEC.memory_mib, SPEC.image
    keeps_sandbox = True

    def __init__(self, by: str = "instance") -> None:
        if by not in APP_SPLITS.by:
            raise ValueError(f"unknown `by` {by!r}; choose from {', '.join(APP_SPLITS.by)}")
        self.by = by
        self.action_space = FreeText(words=VOCABULARY)
        self.observation_space = FreeText(4000, words=VOCABULARY)
        self._browser = BrowserSession([SERVER])
        self._envs: dict[str, BrowserEnv] = {}
        self._env: BrowserEnv | None = None

    @property
    def env(self) -> BrowserEnv:
        """The environment of the current task.

        Raises:
            RuntimeError: before the first reset.
        """
        if self._env is None:
            raise RuntimeError("`turnwise/TinyWeb-v0` was stepped before its first reset; call `reset` first")
        return self._env

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        """Draw an instance of ``options["split"]`` (default ``train``) and open it."""
        super().reset(seed=seed)
        number, split = seed_and_split(self, seed, options)
        self._env = env = self._draw(number, split)
        _, info = env.reset(seed=number, options={"split": split})
        self._words: dict[str, str] = {}
        self._over = False
        self._goal = self._encode(env.goal)
        self._page = self._encode_page()
        return f"task {' '.join(self._goal)} page {self._page}".strip(), self._info(info, True, {})

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        """Apply one action."""
        env = self.env
        if self._over:
            return "invalid", 0.0, True, False, self._info({}, False, {})
        translated = self._translate(action)
        reward_parts: dict[str, float] = {}
        if translated is None:
            reward_parts["invalid"] = INVALID_REWARD
            return f"invalid {self._page}".strip(), INVALID_REWARD, False, False, self._info({}, False, reward_parts)
        self._over = True
        _, _, self._over, _, info = env.step(translated)
        if not info["action_valid"]:
            reward_parts["invalid"] = INVALID_REWARD
        if self._over:
            reward_parts |= {"success": 1.0} if info["success"] else {"wrong": FAILURE_REWARD}
            self._page = "right" if info["success"] else "wrong"
        else:
            self._page = self._encode_page()
        observation = self._page if info["action_valid"] else f"invalid {self._page}".strip()
        tiny_info = self._info(info, info["action_valid"], reward_parts)
        return observation, sum(reward_parts.values()), self._over, False, tiny_info

    def screenshot(self) -> Png | None:
        """Return the browser's window."""
        return self.env.screenshot()

    def close(self) -> None:
        """Release the sandboxes."""
        for env in self._envs.values():
            env.close()

    def valid_actions(self) -> list[tuple[str, float]]:
        """Return a click on each element, and each word of the goal into each field, each with a weight."""
        numbered = [word for word in dict.fromkeys(self._goal) if word in NUMBERED]
        actions: dict[str, float] = {}
        for node, words in self._elements():
            field = node["role"] in FIELD_ROLES
            actions.setdefault(f"click {words[-1]}", 0.25 if field else 1.0)
            if field and not node.get("value"):
                actions |= {f"fill {word} {words[-1]}": 1.0 / len(numbered) for word in numbered}
        return list(actions.items()) or [("click page", 1.0)]

    def oracle(self) -> str:
        """Return the next action of a solution of a trained task.

        Raises:
            NotImplementedError: the current task is not trained on.
        """
        if not isinstance(self.env, MiniWoBEnv) or self.env.task not in TRAINED:
            raise NotImplementedError("turnwise/TinyWeb-v0 has an oracle for trained tasks only")
        wanted = re.findall(r'"(.*?)"', self.env.goal) or re.findall(r"Select (.*) and click", self.env.goal)
        fields = [(node, words) for node, words in self._elements() if node["role"] in FIELD_ROLES]
        if self.env.task in ("enter-text", "login-user"):
            for (node, words), text in zip(fields, wanted, strict=True):
                if not node.get("value"):
                    return f"fill {self._words[text.lower()]} {words[-1]}"
        for node, words in self._elements():
            matches = node["name"] == {"x": "Close"}.get(wanted[0], wanted[0])
            if node["role"] not in FIELD_ROLES and matches and "checked" not in node.get("flags", ()):
                return f"click {words[-1]}"
        return f"click {self._elements()[-1][1][-1]}"

    def vocabulary(self) -> list[str]:
        """Return the words of every observation and valid action."""
        return list(VOCABULARY)

    def _draw(self, seed: int, split: str) -> BrowserEnv:
        if split == "test" and self.by == "site":
            return self._envs.setdefault("site", LoginEnv())
        tasks = HELD_OUT if split == "test" and self.by == "template" else TRAINED
        name = random.Random(f"{split} {seed} {self.by}").choice(tasks)  # noqa: S311 - a game, not a secret
        if name not in self._envs:
            self._envs[name] = MiniWoBEnv(name)
            self._envs[name].browser = self._browser
        return self._envs[name]

    def _elements(self) -> list[tuple[Node, list[str]]]:
        """Return the displayed elements that accept actions, each with its words."""
        nodes = [
            node
            for node in self.env.nodes
            if node["role"] in ROLES and "id" in node and (node["name"] or node["role"] != "clickable")
        ]
        return [(node, self._encode_node(node)) for node in nodes[:MAX_ELEMENTS]]

    def _encode_page(self) -> str:
        return " ".join(word for _, words in self._elements() for word in words)

    def _encode_node(self, node: Node) -> list[str]:
        value = node.get("value", "")
        held = ["with", *self._encode(value)[:MAX_NAME_WORDS]] if value and value != node["name"] else []
        flags = [flag for flag in node.get("flags", ()) if flag in ("checked", "selected")]
        return [node["role"], *held, *flags, *self._encode(node["name"])[:MAX_NAME_WORDS]]

    def _encode(self, text: str) -> list[str]:
        """Return the words of a text, with those outside the vocabulary numbered."""
        words = []
        for word in WORD.findall(text.lower()):
            if word in GRAMMAR or word in ROLES:
                words.append(word)
            elif word in self._words or len(self._words) < len(NUMBERED):
                words.append(self._words.setdefault(word, NUMBERED[min(len(self._words), len(NUMBERED) - 1)]))
            else:
                words.append("other")
        return words

    def _translate(self, action: str) -> str | None:
        """Return the browser's action for a tiny action; None if the tiny action is invalid."""
        match action.split():
            case ["click", word]:
                nodes = self._ending_in(word)
                return f"click({nodes[0]['id']})" if nodes else None
            case ["fill", word, field] if word in self._words.values():
                fields = [node for node in self._ending_in(field) if node["role"] in FIELD_ROLES]
                empty = [node for node in fields if not node.get("value")]
                if not empty:
                    return None
                (text,) = (text for text, numbered in self._words.items() if numbered == word)
                in_goal = re.search(rf"\b{re.escape(text)}\b", self.env.goal, re.IGNORECASE)
                return f"fill({empty[0]['id']}, {(in_goal.group() if in_goal else text)!r})"
        return None

    def _ending_in(self, word: str) -> list[Node]:
        return [node for node, words in self._elements() if words[-1] == word]

    def _info(self, info: Mapping[str, Any], valid: bool, reward_parts: dict[str, float]) -> Info:
        task = self.env.task if isinstance(self.env, MiniWoBEnv) else "login"
        return {
            "action_valid": valid,
            "state_key": self._page,
            "env_error": None,
            "success": bool(info.get("success")),
            "reward_parts": reward_parts,
            **({"extras": info["extras"] | {"task": task}} if "extras" in info else {}),
        }
