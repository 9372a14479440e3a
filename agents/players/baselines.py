"""Baselines without a model: random actions, and the environment's reference solution."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

from ..rollout.episode import Answer

if TYPE_CHECKING:
    from ...envs.runner.env_thread import EnvThread


class RandomPlayer:
    """Draw an action from the environment's ``valid_actions``, each with a probability proportional to its weight."""

    def __init__(self, owner: EnvThread, rng: Random, deadline: float) -> None:
        self._owner = owner
        self._deadline = deadline
        self._rng = rng

    async def act(self, observation: str, images: Sequence[bytes]) -> Answer:
        """See ``episode.Player``."""
        listed = await self._owner.run("valid_actions", lambda env: env.valid_actions(), self._deadline)
        return Answer(self._rng.choices([text for text, _ in listed], [weight for _, weight in listed])[0])

    def close(self) -> None:
        """Nothing is held."""


class OraclePlayer:
    """Does what the environment says is right."""

    def __init__(self, owner: EnvThread, deadline: float) -> None:
        self._owner = owner
        self._deadline = deadline

    async def act(self, observation: str, images: Sequence[bytes]) -> Answer:
        """See ``episode.Player``."""
        return Answer(await self._owner.run("oracle", lambda env: env.oracle(), self._deadline))

    def close(self) -> None:
        """Nothing is held."""
