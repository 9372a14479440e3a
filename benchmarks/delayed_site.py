"""``turnwise/TextSite-v0`` behind a slow and heavy-tailed world: each turn waits as a real page would.

The wait of a turn is lognormal (mean ``mean_ms``, σ = 1); one episode in twenty waits ten times as long. What is seen
and rewarded is the site's own, so the world stays deterministic in all but time.
"""

import math
import random
import time
from typing import Any

import gymnasium
from turnwise.envs.base import Info, Obs
from turnwise.envs.text.env import TextSiteEnv

SIGMA = 1.0
SLOW_SHARE = 0.05
SLOW_FACTOR = 10.0


class DelayedSite(TextSiteEnv):
    """The site, late."""

    def __init__(self, family: str = "mix", mean_ms: float = 100.0) -> None:
        super().__init__(family)
        self._location = math.log(mean_ms / 1000) - SIGMA**2 / 2 if mean_ms else None
        self._factor = 1.0
        self._clock = random.Random()  # noqa: S311 - when, not what

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        """As the site, at once; whether this is a slow episode is drawn here."""
        self._factor = SLOW_FACTOR if self._clock.random() < SLOW_SHARE else 1.0
        return super().reset(seed=seed, options=options)

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        """As the site, after the wait."""
        if self._location is not None:
            time.sleep(self._factor * self._clock.lognormvariate(self._location, SIGMA))
        return super().step(action)


gymnasium.register(
    "DelayedSite-v0", entry_point="delayed_site:DelayedSite", disable_env_checker=True, order_enforce=False
)
