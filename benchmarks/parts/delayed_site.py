"""``turnwise/TextSite-v0`` with a heavy-tailed delay per turn, as of a real page.

The delay of a turn is lognormal (mean ``mean_ms``, σ = 1). One episode in twenty has delays ten times as long.
Observations and rewards are those of the site, so only the timing is random.
"""

import math
import random
import time
from typing import Any

import gymnasium
from turnwise.envs.base import Info, Obs
from turnwise.envs.worlds.tiny.text import TextSiteEnv

SIGMA = 1.0
SLOW_SHARE = 0.05
SLOW_FACTOR = 10.0


class DelayedSite(TextSiteEnv):
    """The text site with a delay of mean ``mean_ms`` per turn; 0 for none."""

    def __init__(self, family: str = "mix", mean_ms: float = 100.0) -> None:
        super().__init__(family)
        self._location = math.log(mean_ms / 1000) - SIGMA**2 / 2 if mean_ms else None
        self._factor = 1.0
        self._clock = random.Random()  # noqa: S311 - draws delays only

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        """Reset without delay, and draw whether the episode is slow."""
        self._factor = SLOW_FACTOR if self._clock.random() < SLOW_SHARE else 1.0
        return super().reset(seed=seed, options=options)

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        """Step after the delay."""
        if self._location is not None:
            time.sleep(self._factor * self._clock.lognormvariate(self._location, SIGMA))
        return super().step(action)


gymnasium.register(
    "DelayedSite-v0",
    entry_point="turnwise.benchmarks.parts.delayed_site:DelayedSite",
    disable_env_checker=True,
    order_enforce=False,
)
