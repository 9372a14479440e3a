"""``turnwise/TextSite-v0`` with long pages: each observation ends with a number of words of the site's vocabulary."""

import random
from typing import Any

import gymnasium
from turnwise.envs.base import Info, Obs
from turnwise.envs.spaces import FreeText
from turnwise.envs.worlds.tiny.text import VOCABULARY, TextSiteEnv

WORD_MAX_CHARS = 1 + max(map(len, VOCABULARY))


class LongPages(TextSiteEnv):
    """The text site with ``words`` more words per observation, drawn from the seed of the episode."""

    def __init__(self, words: int = 240) -> None:
        super().__init__()
        self._words = words
        self._draws = random.Random()  # noqa: S311 - seeded at each reset
        self.observation_space = FreeText(self.max_chars + words * WORD_MAX_CHARS, words=VOCABULARY)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        """Reset the site, and the words with it."""
        self._draws.seed(seed)
        text, info = super().reset(seed=seed, options=options)
        return self._long(text), info

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        """Step the site."""
        text, *rest = super().step(action)
        return self._long(text), *rest

    def _long(self, text: Obs) -> str:
        return " ".join([str(text), *self._draws.choices(VOCABULARY, k=self._words)])


gymnasium.register(
    "LongPages-v0",
    entry_point="turnwise.benchmarks.parts.scale.long_pages:LongPages",
    disable_env_checker=True,
    order_enforce=False,
)
