"""``turnwise/WebApps-v0``: a shop, an issue tracker, and a wiki with a forum, in a browser.

Each episode begins with a world of its own, drawn from the seed, on a real server with a real database, and is judged
by that database as the agent leaves it, and by the answer where one is asked for: the wanted change and no other.
``by`` says what is held out of training: instances, whole templates, or a site.
"""

import contextlib
import json
import re
import sqlite3
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...base import Info, Obs
from ..actions import ANSWER
from ..custom_site import PORT, Asked, Ended, OwnSiteEnv
from ..env import Seen
from . import server
from .splits import BY, HELD_OUT_SITE, instance, templates_of
from .tasks.catalog import draw
from .tasks.template import Act, SiteTask

DATABASE = "site.db"
WORLD = "world.json"


class WebAppsEnv(OwnSiteEnv):
    """See the module. ``template`` (``shop/checkout``) plays that one alone, with the seed as it is.

    Raises:
        ValueError: an option is unknown.
    """

    width, height = 1024, 768

    def __init__(
        self,
        by: str = "instance",
        held_out_site: str = HELD_OUT_SITE,
        template: str | None = None,
        observation: Seen = "text",
        marks: bool = False,
    ) -> None:
        super().__init__(observation, marks)
        if by not in BY:
            raise ValueError(f"tasks cannot be split by {by!r}; choose from {', '.join(BY)}")
        templates_of(by, "test", held_out_site)
        self._by, self._held_out_site, self._template = by, held_out_site, template
        self._turns: int | None = 0
        """Steps of the oracle's taken so far; None once another one was."""

    def task(self, seed: int, split: str) -> Asked:
        """The instance of a seed."""
        if self._template is not None:
            found = draw(self._template, seed)
        else:
            which = instance(self._by, split, seed, self._held_out_site)
            found = draw(which.template, which.seed)
        world = {f"server/{path}": content for path, content in _servers().items()}
        world[WORLD] = json.dumps(found.world).encode()
        return Asked(found.goal, found.start, world, found)

    def serve(self) -> str:
        """The server of the task's site."""
        return f"python3 -I server/start.py {self.playing.site} {PORT} {DATABASE} {WORLD}"

    @property
    def playing(self) -> SiteTask:
        """The current task.

        Raises:
            RuntimeError: before the first reset.
        """
        if self._asked is None:
            raise RuntimeError("turnwise/WebApps-v0 was used before its first reset")
        task: SiteTask = self._asked.facts
        return task

    def check(self, ended: Ended) -> bool:
        """Whether the database and the answer are as they should be."""
        files = {path: content for path, content in ended.files.items() if path.startswith(DATABASE)}
        if DATABASE not in files:
            return False
        with tempfile.TemporaryDirectory(prefix="tw-site-") as folder:
            for path, content in files.items():
                (Path(folder) / path).write_bytes(content)
            with contextlib.closing(sqlite3.connect(Path(folder) / DATABASE)) as connection:
                return bool(self.playing.check(connection, ended.answer or None))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        """See ``BrowserEnv``."""
        self._turns = 0
        return super().reset(seed=seed, options=options)

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        """See ``BrowserEnv``."""
        try:
            hinted = self.oracle()
        except LookupError:
            hinted = ""
        seen, reward, terminated, truncated, info = super().step(action)
        if action == hinted and self._turns is not None:
            self._turns += 1
        elif info["action_valid"]:
            self._turns = None
        return seen, reward, terminated, truncated, info

    def oracle(self) -> str:
        """The next action of whoever knows the way, and has taken no other so far.

        Raises:
            LookupError: another one was taken, or its element is not there.
        """
        if self._turns is None:
            raise LookupError("the oracle knows the way from the start only, and you left it")
        acts = self.playing.oracle
        if self._turns >= len(acts):
            return f'{ANSWER}("done")'
        return written(acts[self._turns], self.nodes)


def written(act: Act, nodes: list[Mapping[str, Any]]) -> str:
    """An act as the agent would write it, on a page of these nodes.

    Raises:
        LookupError: there is no such element.
    """
    if act.verb == ANSWER:
        return f"{ANSWER}({act.value!r})"
    alike = [node for node in nodes if node["role"] == act.role and _same(node.get("name", ""), act.name)]
    if act.nth >= len(alike):
        there = ", ".join(f"{node['role']} {node.get('name', '')!r}" for node in nodes if "id" in node)[:600]
        raise LookupError(f"there is no {act.role} {act.name!r} on the page, which has {there}")
    number = alike[act.nth]["id"]
    return f"click({number})" if act.verb == "click" else f"{act.verb}({number}, {act.value!r})"


def _same(one: str, other: str) -> bool:
    return re.sub(r"\s+", " ", one).strip() == re.sub(r"\s+", " ", other).strip()


def _servers() -> dict[str, bytes]:
    root = Path(server.__file__).parent
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*.py"))}
