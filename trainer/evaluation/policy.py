"""The policy that an evaluation or a branch plays with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Self

from ...agents.model_folder import is_hub_id, model_folder
from ...agents.players.baselines import OraclePlayer, RandomPlayer
from ...agents.players.openai import ChatPlayer, ChatServer
from ...agents.rollout.player import Player
from ...agents.rollout.timeouts import Timeouts
from ...envs.runner.env_thread import EnvThread
from ...errors import TurnwiseError
from ...masking import without_secrets
from ...process.start import absolute
from ...records import Group, Source, Trajectory
from .settings import is_model


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy by its name. The episodes of one without a ``folder`` have no tokens, and need no engine."""

    name: str
    """``random``, ``oracle``, the folder of a model, or the URL of a server."""
    shown: str
    """The name as it is stored and printed: without secrets."""
    folder: Path | None
    """The folder of a model; None for any other policy."""
    seed: int
    """The seed of the random policy."""
    api_key_env: str
    """Name of the environment variable with the key of a server; empty for none."""

    @classmethod
    def named(cls, name: str, seed: int, api_key_env: str, known: str = "random, oracle") -> Self:
        """Return a policy by its name, or by the hub id of a model, which is downloaded.

        Args:
            known: the names that the error lists.

        Raises:
            TurnwiseError: there is no such policy, or a key is given for one that is not a server.
        """
        shown = without_secrets(name)
        if api_key_env and "://" not in name:
            raise TurnwiseError(f"`--api-key-env {api_key_env}` is for the URL of a server, and `--policy` is `{name}`")
        if is_hub_id(name) and not is_model(name):
            name = str(model_folder(name, "--policy"))
        if is_model(name):
            return cls(name, shown, absolute(name).resolve(), seed, api_key_env)
        if name not in ("random", "oracle") and "://" not in name:
            raise TurnwiseError(
                f"--policy {shown}: neither {known}, a folder with a model (no config.json there), nor a URL"
            )
        return cls(name, shown, None, seed, api_key_env)

    @property
    def source(self) -> Source:
        """The source of its episodes."""
        return Source.EXPERT if self.name == "oracle" else Source.POLICY

    def server(self, temperature: float, timeout_s: float) -> ChatServer | None:
        """Return the server of the policy, to be closed by the caller; None if it has none.

        Raises:
            TurnwiseError: the server cannot be used.
        """
        return ChatServer(self.name, temperature, timeout_s, self.api_key_env) if "://" in self.name else None

    def token_free_player(
        self, server: ChatServer | None, timeouts: Timeouts, env_thread: EnvThread, group: Group, trajectory: Trajectory
    ) -> Player:
        """Create the player of one episode, for a policy without an engine."""
        if server is not None:
            return ChatPlayer(server, env_thread.instructions)
        if self.name == "oracle":
            return OraclePlayer(env_thread, timeouts.step_s)
        rng = Random(f"{self.seed} {group.task.id} {trajectory.member}")  # noqa: S311 - reproducible, not secret
        return RandomPlayer(env_thread, rng, timeouts.step_s)
