"""MiniWoB++: one environment per task, ``turnwise/MiniWoB-<task>-v0``, served in the sandbox from the image.

Scoring is BrowserGym's: success is a raw reward above 0 once the page reports the end of the episode, because the
reward that the page displays decays with time. An agent that leaves the page, opens another tab in front of it, or
reloads it (which draws another instance) has failed. The page is changed in four ways:

* The counters and the START button, which belong to MiniWoB++'s own harness, are hidden.
* A field drops every ``<`` typed into it. No task needs one, and some pages render the text as markup, from where a
  script could set the reward.
* Animations, delays and the caret are off, so that an observation waits for none and a seed determines it.
* The page's episode timer is off, because horizons belong to the trainer.

Shi et al. 2017, "World of Bits"; Liu et al. 2018, "Reinforcement learning on web interfaces" (MiniWoB++).
"""

import random
from collections.abc import Mapping
from typing import Any

from ...computer.calls import Action
from ...computer.env import ObservationMode, Verdict
from ..browser_session import BrowserSession
from ..env import BrowserEnv, EpisodeStart
from . import FOLDER, IN_PLACE, LATE_ICONS, MOVING, TASKS

PORT = 8081
ORIGIN = f"http://127.0.0.1:{PORT}"
SERVER = f"python3 -I -m http.server {PORT} --bind 127.0.0.1 --directory /opt/browser/miniwob/html"
PAGE_SEEDS = 10**6
START_SCRIPT = (FOLDER / "start.js").read_text()
"""Draws the instance of ``SEED`` and evaluates to its goal."""
STATE_SCRIPT = "[location.href, !!window.TURNWISE_BEGAN, !!window.WOB_DONE_GLOBAL, window.WOB_RAW_REWARD_GLOBAL]"


class MiniWoBEnv(BrowserEnv[None]):
    """Complete a task of MiniWoB++ in a real browser.

    ``task`` is its name, such as ``click-button``.
    """

    width, height = 320, 320

    def __init__(
        self,
        task: str,
        observation: ObservationMode = "text",
        marks: bool = False,
        max_pixels: int | None = None,
        coordinates: tuple[int, int] | None = None,
    ) -> None:
        if task not in TASKS:
            raise ValueError(f"MiniWoB++ has no task {task!r}")
        super().__init__(BrowserSession([SERVER]), observation, marks, max_pixels, coordinates)
        self.task = task
        self.deterministic = task not in MOVING
        self.url = f"{ORIGIN}/miniwob/{task}.html"

    def start_episode(self, seed: int, split: str) -> EpisodeStart:
        """Open the page with a page seed drawn from the seed; the two splits share no page seed."""
        pair = random.Random(f"{split} {seed}").randrange(PAGE_SEEDS // 2)  # noqa: S311 - a game, not a secret
        return self.open_instance(pair * 2 + (split == "test"))

    def open_instance(self, page_seed: int) -> EpisodeStart:
        """Open the instance that the page draws from ``page_seed``, from 0 to 10^6."""
        script = START_SCRIPT.replace("SEED", str(page_seed))
        reusable = self.task in IN_PLACE or (self.observation == "text" and self.task in LATE_ICONS)
        return EpisodeStart("", self.url, (ORIGIN,), reusable, (script,))

    def evaluation_scripts(self) -> tuple[str, ...]:
        """Return the expression for the page's address, reward and end."""
        return (STATE_SCRIPT,)

    def evaluate(self, action: Action | None, answer: Mapping[str, Any]) -> Verdict:
        """Return success for a raw reward above 0; leaving or reloading the page is a failure."""
        values = answer.get("values") or [None]
        if "lost" in answer or not isinstance(values[-1], list):
            return Verdict(over=True)
        # A page may replace any value, not the list of them.
        url, began, over, raw_reward = values[-1]
        if url != self.url or not began:
            return Verdict(over=True)
        success = bool(over) and isinstance(raw_reward, int | float) and raw_reward > 0
        return Verdict({"success": 1.0} if success else {}, bool(over), success)
