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
from dataclasses import replace
from typing import Any

from ...episode import Turn
from ...options import one_of
from ...spaces import Png
from ..computer.calls import Action
from ..computer.elements import CLICKABLE_ROLES, Node
from ..computer.env import Verdict
from ..web.apps.env import WebAppsEnv
from ..web.apps.tasks import APP_SPLITS
from ..web.browser_session import SPEC, BrowserSession
from ..web.custom_site import SiteTask
from ..web.env import BrowserEnv
from ..web.miniwob.env import SERVER, MiniWoBEnv
from .base import TinyEnv, end, invalid

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
MAX_ELEMENTS = 24
MAX_NAME_WORDS = 6
NUMBERED = tuple(f"w{number}" for number in range(1, 49))
FIELD_ROLES = ("textbox", "searchbox", "combobox")
ROLES = (*CLICKABLE_ROLES, *FIELD_ROLES)
GRAMMAR = (
    *("task", "page", "click", "fill", "on", "the", "in", "box", "labeled", "select", "and", "submit", "enter", "into"),
    *("text", "field", "fields", "press", "username", "password", "login", "dialog", "close", "cancel", "ok", "x"),
    *("with", "checked", "selected", "invalid", "right", "wrong", "other"),
)
VOCABULARY = tuple(dict.fromkeys((*GRAMMAR, *ROLES, *NUMBERED, "ended")))
"""In a fixed order: a tiny model's token ids follow it."""
LOGGED_IN_BUTTON = "Log out"
SEEDS_PER_TASK = 1000
LOGIN_GOAL = re.compile(r"Log in as (\S+) \(password (\S+)\)")


class LoginEnv(WebAppsEnv):
    """The worlds of ``turnwise/WebApps-v0`` with a single task: log in. An episode starts at the login page."""

    def task(self, seed: int, split: str) -> SiteTask:
        """Return the login of the first task with one, among the seeds reserved for this seed."""
        for number in range(SEEDS_PER_TASK * seed, SEEDS_PER_TASK * (seed + 1)):
            task = super().task(number, split)
            if login := LOGIN_GOAL.search(task.goal):
                break
        else:
            raise RuntimeError(f"none of {SEEDS_PER_TASK} tasks has a goal that matches `{LOGIN_GOAL.pattern}`")
        name, password = login.groups()
        goal = f'Enter the username "{name}" and the password "{password}" and press Log in.'
        return SiteTask(goal, "/login", task.files, task.data)

    def evaluate(self, action: Action | None, answer: Mapping[str, Any]) -> Verdict:
        """Return success once the page displays the button for logging out."""
        nodes = answer.get("nodes", ())
        success = any((node["role"], node["name"]) == ("button", LOGGED_IN_BUTTON) for node in nodes)
        return Verdict({"success": 1.0} if success else {}, success, success)


class TinyWebEnv(TinyEnv[BrowserEnv[Any]]):
    """Complete a task of MiniWoB++ in a real browser, in a closed vocabulary.

    ``episode`` is the environment of the task, in the browser.

    Raises:
        ValueError: ``by`` or, at reset, the split is unknown.
        SandboxError: the sandbox or its driver failed.
    """

    name = "turnwise/TinyWeb-v0"
    words = VOCABULARY
    max_chars = 4000
    sandboxed = True
    sandbox_memory_mib, sandbox_image = SPEC.memory_mib, SPEC.image
    keeps_sandbox = True

    def __init__(self, by: str = "instance") -> None:
        super().__init__()
        self.by = one_of("by", by, APP_SPLITS.by, self.name)
        self._browser = BrowserSession([SERVER])
        self._envs: dict[str, BrowserEnv[Any]] = {}
        self._words: dict[str, str] = {}
        """The words outside the vocabulary, each with its numbered word."""
        self._view = ""

    @property
    def state_key(self) -> str:
        """Name the elements of the page."""
        return self._view

    def _begin(self, seed: int, split: str) -> Turn:
        self.episode = env = self._env_of(seed, split)
        _, info = env.reset(seed=seed, options={"split": split})
        self._words = {}
        self._goal = self._encode(env.goal)
        self._view = self._encode_page()
        task = env.task if isinstance(env, MiniWoBEnv) else "login"
        extras = info["extras"] | {"task": task}
        return Turn(f"task {' '.join(self._goal)} page {self._view}".strip(), info={"extras": extras})

    def _play(self, action: str) -> Turn:
        translated = self._translate(action)
        if translated is None:
            return invalid(self._view)
        _, _, over, _, info = self.episode.step(translated)
        self._view = self._view if over else self._encode_page()
        turn = end(info["success"]) if over else Turn(self._view)
        turn = replace(turn, info={**turn.info, "targets": info.get("targets", [])})
        if info["action_valid"]:
            return turn
        refused = invalid(str(turn.observation))
        return replace(turn, observation=refused.observation, parts={**refused.parts, **turn.parts}, valid=False)

    def screenshot(self) -> Png | None:
        """Return the browser's window."""
        return self.episode.screenshot()

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
        if not isinstance(self.episode, MiniWoBEnv) or self.episode.task not in TRAINED:
            raise NotImplementedError("turnwise/TinyWeb-v0 has an oracle for trained tasks only")
        wanted = re.findall(r'"(.*?)"', self.episode.goal) or re.findall(r"Select (.*) and click", self.episode.goal)
        fields = [(node, words) for node, words in self._elements() if node["role"] in FIELD_ROLES]
        if self.episode.task in ("enter-text", "login-user"):
            for (node, words), text in zip(fields, wanted, strict=True):
                if not node.get("value"):
                    return f"fill {self._words[text.lower()]} {words[-1]}"
        for node, words in self._elements():
            matches = node["name"] == {"x": "Close"}.get(wanted[0], wanted[0])
            if node["role"] not in FIELD_ROLES and matches and "checked" not in node.get("flags", ()):
                return f"click {words[-1]}"
        return f"click {self._elements()[-1][1][-1]}"

    def _env_of(self, seed: int, split: str) -> BrowserEnv[Any]:
        """Return the environment of the task of a seed."""
        if split == "test" and self.by == "site":
            return self._envs.setdefault("site", LoginEnv())
        tasks = HELD_OUT if split == "test" and self.by == "template" else TRAINED
        task = random.Random(f"{split} {seed} {self.by}").choice(tasks)  # noqa: S311 - a game, not a secret
        if task not in self._envs:
            self._envs[task] = MiniWoBEnv(task)
            self._envs[task].browser = self._browser
        return self._envs[task]

    def _elements(self) -> list[tuple[Node, list[str]]]:
        """Return the displayed elements that accept actions, each with its words."""
        nodes = [
            node
            for node in self.episode.nodes
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
                in_goal = re.search(rf"\b{re.escape(text)}\b", self.episode.goal, re.IGNORECASE)
                return f"fill({empty[0]['id']}, {(in_goal.group() if in_goal else text)!r})"
        return None

    def _ending_in(self, word: str) -> list[Node]:
        return [node for node, words in self._elements() if words[-1] == word]
