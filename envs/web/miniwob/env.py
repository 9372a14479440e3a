"""MiniWoB++: ``turnwise/MiniWoB-<task>-v0``, all its tasks, served beside the browser from the image.

Scored as BrowserGym scores it: success is a raw reward above 0 when the page says that the episode is over (the reward
that the page shows decays with time); whoever leaves the page, or opens another tab in front of it, has lost. The
page's counters and its START button are hidden: they tell of the harness, not of the task; whoever loads the page
again, and so begins another episode than the one drawn, has left it. What is written into a field loses every ``<``,
which no task asks for: some pages show it as markup, and the reward lies in the page. What would be animated, or come
after a while, is there at once, and no caret blinks: nobody waits for it, and the same seed shows the same.

Shi et al. 2017, "World of Bits"; Liu et al. 2018, "Reinforcement learning on web interfaces" (MiniWoB++).
"""

import random
from collections.abc import Mapping
from typing import Any

from ..actions import Action
from ..browser_session import Browser
from ..env import Begin, BrowserEnv, Judged, Seen
from .tasks import ICONS_COME_LATER, IN_PLACE, MOVING, TASKS

PORT = 8081
ORIGIN = f"http://127.0.0.1:{PORT}"
SERVER = f"python3 -I -m http.server {PORT} --bind 127.0.0.1 --directory /opt/browser/miniwob/html"
SEEDS = 10**6
MAX_MS = 10**6
"""An episode's time by the page's own clock: as good as none, for the horizon is the trainer's."""
HIDE = (
    "#reward-display, #click-canvas, #sync-task-cover, #query { display: none !important } "
    "* { transition: none !important; animation: none !important; caret-color: transparent !important }"
)
START = f"""
(async () => {{
  // What an earlier episode may have left: the focus, where Tab goes on from, what was selected, scrolled, written.
  const first = document.createElement('span');
  first.tabIndex = -1;
  document.body.prepend(first);
  first.focus();
  first.remove();
  getSelection().removeAllRanges();
  for (const one of document.querySelectorAll('*')) if (one.scrollTop || one.scrollLeft) one.scrollTo(0, 0);
  for (const one of document.querySelectorAll('input, textarea')) {{
    // What is taken out of the page and put back has nothing to undo.
    const place = document.createComment('');
    one.replaceWith(place);
    place.replaceWith(one);
    one.value = one.defaultValue;
    one.checked = one.defaultChecked;
  }}
  if (!document.getElementById('turnwise')) {{
    const style = document.createElement('style');
    style.id = 'turnwise';
    style.textContent = {HIDE!r};
    document.head.appendChild(style);
    const policy = document.createElement('meta');
    policy.httpEquiv = 'Content-Security-Policy';
    policy.content = "script-src 'self' 'unsafe-eval'; frame-src 'none'; object-src 'none'";
    document.head.appendChild(policy);
    addEventListener('keydown', event => {{
      if (event.key !== '<') return;
      event.preventDefault();
      event.stopImmediatePropagation();
    }}, true);
    addEventListener('input', event => {{
      const one = event.target;
      if (String(one.value).includes('<')) one.value = one.value.replaceAll('<', '');
    }}, true);
  }}
  if (window.jQuery) {{
    jQuery.fx.off = true;
    if (jQuery.ui && jQuery.ui.autocomplete) jQuery.ui.autocomplete.prototype.options.delay = 0;
    if (jQuery.ui && jQuery.ui.menu) jQuery.ui.menu.prototype.delay = 0;
  }}
  Math.seedrandom(SEED);
  core.EPISODE_MAX_TIME = {MAX_MS};
  core.startEpisodeReal();
  core.clearTimer();
  window.TURNWISE_BEGAN = true;
  while (!WOB_TASK_READY) await new Promise(done => setTimeout(done, 5));
  const said = core.getUtterance();
  return typeof said === 'string' ? said : said.utterance;
}})()
"""
STATE = "[location.href, !!window.TURNWISE_BEGAN, !!window.WOB_DONE_GLOBAL, window.WOB_RAW_REWARD_GLOBAL]"


class MiniWoBEnv(BrowserEnv):
    """One task. ``task`` is its name, such as ``click-button``."""

    width, height = 320, 320

    def __init__(self, task: str, observation: Seen = "text", marks: bool = False) -> None:
        if task not in TASKS:
            raise ValueError(f"MiniWoB++ has no task {task!r}")
        super().__init__(Browser([SERVER]), observation, marks)
        self.task = task
        self.deterministic = task not in MOVING
        self.url = f"{ORIGIN}/miniwob/{task}.html"

    def begin(self, seed: int, split: str) -> Begin:
        """The page with a seed; the two splits share none."""
        return self.page(random.Random(f"{split} {seed}").randrange(SEEDS // 2) * 2 + (split == "test"))  # noqa: S311

    def page(self, number: int) -> Begin:
        """The instance that the page draws from this number, 0 to 10^6."""
        start = START.replace("SEED", str(number))
        stays = self.task in IN_PLACE or (self.observation == "text" and self.task in ICONS_COME_LATER)
        return Begin("", self.url, (ORIGIN,), stays, (start,))

    def judging(self) -> tuple[str, ...]:
        """What the page says."""
        return (STATE,)

    def judge(self, action: Action | None, answer: Mapping[str, Any]) -> Judged:
        """See the module."""
        values = answer.get("values") or [None]
        if "lost" in answer or not isinstance(values[-1], list):
            return Judged(over=True)
        url, began, over, raw = values[-1]
        if url != self.url or not began:
            return Judged(over=True)
        success = bool(over) and raw > 0
        return Judged({"success": 1.0} if success else {}, bool(over), success)
