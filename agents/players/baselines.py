"""Baselines without a model: random actions, and the environment's reference solution."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

from ...envs.base import checked_actions, checked_oracle
from ..rollout.player import PlayerTurn

if TYPE_CHECKING:
    from ...envs.runner.env_thread import EnvThread


class RandomPlayer:
    """Draw an action from the environment's ``valid_actions``, with a probability proportional to its weight."""

    def __init__(self, env_thread: EnvThread, rng: Random, step_timeout_s: float) -> None:
        self._env_thread = env_thread
        self._step_timeout_s = step_timeout_s
        self._rng = rng

    async def act(self, observation: str, images: Sequence[bytes]) -> PlayerTurn:
        """Return a random valid action."""
        actions = await self._env_thread.run("valid_actions", checked_actions, self._step_timeout_s)
        return PlayerTurn(self._rng.choices([text for text, _ in actions], [weight for _, weight in actions])[0])

    def close(self) -> None:
        """Do nothing: the player holds no resources."""


class OraclePlayer:
    """Play the environment's reference solution (``oracle``)."""

    def __init__(self, env_thread: EnvThread, step_timeout_s: float) -> None:
        self._env_thread = env_thread
        self._step_timeout_s = step_timeout_s

    async def act(self, observation: str, images: Sequence[bytes]) -> PlayerTurn:
        """Return the reference action."""
        return PlayerTurn(await self._env_thread.run("oracle", checked_oracle, self._step_timeout_s))

    def close(self) -> None:
        """Do nothing: the player holds no resources."""
