"""The policies that play without an engine: random, the oracle, and a model behind a chat API. Their episodes have no
tokens."""

from __future__ import annotations

from random import Random

from ...agents.players.baselines import OraclePlayer, RandomPlayer
from ...agents.players.openai import ChatPlayer, ChatServer
from ...agents.rollout.player import Player
from ...envs.runner.env_thread import EnvThread
from ...errors import TurnwiseError
from ...records import Group, Source, Trajectory
from .settings import EvalSettings


def is_token_free(policy: str) -> bool:
    """Return whether a policy is ``random``, ``oracle`` or the URL of a server."""
    return policy in ("random", "oracle") or "://" in policy


def check_key(policy: str, api_key_env: str) -> None:
    """Check that a key is given for a server only.

    Raises:
        TurnwiseError: the policy is not a server.
    """
    if api_key_env and "://" not in policy:
        raise TurnwiseError(f"`--api-key-env {api_key_env}` is for the URL of a server, and `--policy` is `{policy}`")


class TokenFreePlayers:
    """Creates the players of one policy. ``close`` it in the event loop that played."""

    def __init__(self, policy: str, seed: int, settings: EvalSettings, api_key_env: str = "") -> None:
        """``policy`` must be ``is_token_free``; ``seed`` is that of the random policy, ``api_key_env`` a server's.

        Raises:
            TurnwiseError: the server cannot be used.
        """
        self._policy = policy
        self._seed = seed
        self._timeouts = settings.timeouts
        temperature = settings.rollout.temperature
        self._server = ChatServer(policy, temperature, self._timeouts.turn_s, api_key_env) if "://" in policy else None

    @property
    def source(self) -> Source:
        """The source of the episodes."""
        return Source.EXPERT if self._policy == "oracle" else Source.POLICY

    def create(self, env_thread: EnvThread, group: Group, trajectory: Trajectory) -> Player:
        """Create the player of one episode."""
        if self._server is not None:
            return ChatPlayer(self._server, env_thread.instructions)
        if self._policy == "random":
            rng = Random(f"{self._seed} {group.task.id} {trajectory.member}")  # noqa: S311 - reproducible, not secret
            return RandomPlayer(env_thread, rng, self._timeouts.step_s)
        return OraclePlayer(env_thread, self._timeouts.step_s)

    async def close(self) -> None:
        """Close the connections to the server, if there is one."""
        if self._server is not None:
            await self._server.close()
