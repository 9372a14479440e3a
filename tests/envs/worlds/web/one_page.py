"""A site of one page, whose elements are found by their names.

The next page replaces the file of the one before, and the server keeps running, because other tests start it. No other
site may use the browser meanwhile.
"""

import re
from typing import Any

from turnwise.envs.worlds.web.browser_session import FILES, SITE_USER
from turnwise.envs.worlds.web.custom_site import CustomSiteEnv, FinalState, SiteTask
from turnwise.envs.worlds.web.env import EpisodeStart
from turnwise.sandbox import SandboxLease

LOG = (
    "<script>const log = text => document.getElementById('log').textContent += text + '; '</script><p id=log>log: </p>"
)
"""Defines ``log(text)``, which writes into the page."""


class OnePage(CustomSiteEnv):
    """A site of one page, given by ``open``; one browser serves all pages."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.body = self.seen = ""
        self.served: SandboxLease | None = None
        """The sandbox in which the site's server runs."""

    def open(self, body: str) -> None:
        """Start an episode on a page with this body."""
        self.body = body
        self.seen = str(self.reset(seed=0)[0])

    def task(self, seed: int, split: str) -> SiteTask:
        """Return the task of opening the page."""
        pages = {"index.html": f"<!doctype html><title>page</title>{LOG}{self.body}", "other.html": "<h1>other</h1>"}
        return SiteTask("try", "/index.html", {name: text.encode() for name, text in pages.items()})

    def start_episode(self, seed: int, split: str) -> EpisodeStart:
        """Open the page, on the running server if there is one."""
        sandbox = self.browser.sandbox
        if sandbox is None or sandbox is not self.served:
            start = super().start_episode(seed, split)
            self.served = self.browser.sandbox
            return start
        task = self.task(seed, split)
        files = {f"{FILES}/{name}": content for name, content in task.files.items()}
        sandbox.write(files, timeout_s=10, user=SITE_USER)
        origin = f"http://127.0.0.1:{self.port}"
        return EpisodeStart(task.goal, origin + task.start, (origin,))

    def check(self, final: FinalState) -> bool:
        """Return true."""
        return True

    def try_action(self, action: str, **names: str) -> tuple[str, bool]:
        """Execute an action, in which ``{one}`` is the number of the line that begins with ``names["one"]``.

        Returns:
            tuple: the observation, and whether the action was executed.
        """
        numbers = {one: self.number(line) for one, line in names.items()}
        seen, _, _, _, info = self.step(action.format(**numbers))
        self.seen = str(seen)
        return self.seen, bool(info["action_valid"])

    def number(self, line: str) -> int:
        """Return the number of the line of the last observation that begins with ``line``."""
        found = re.search(r"\[(\d+)\] " + re.escape(line), self.seen)
        assert found, f"no {line} in {self.seen}"
        return int(found.group(1))
