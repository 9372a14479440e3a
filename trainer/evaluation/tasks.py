"""Evaluate any policy on held-out tasks, stand-alone: a random, an oracle, a model under vLLM, or a server by URL."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic
from typing import Any

from ...envs.runner.once import enumerated_seeds
from ...errors import TurnwiseError
from ...records import Task
from ...store.database import open_database
from ..config.sections import EnvironmentConfig
from ..preflight.refusal import Command
from ..shutdown import SHUTDOWN
from ..telemetry.events import EvalResult
from .heldout import SEED_STRIDE, first_task, held_out, play_tasks, summarize
from .policy import Policy
from .session import session


@SHUTDOWN.receiving()
def evaluate(
    policy: str,
    env_id: str,
    *,
    tasks: int,
    split: str = "test",
    seed: int = 0,
    store_url: str,
    options: Mapping[str, Any] | None = None,
    turns: int | None = None,
    temperature: float | None = None,
    sandboxes: Mapping[str, Any] | None = None,
    api_key_env: str = "",
) -> EvalResult:
    """Play ``tasks`` tasks once each and store them: of an environment that enumerates its tasks, the first ones.

    A checkpoint plays the longest horizon of its run, at the run's temperature, with its timeouts and the settings of
    its sandboxes.

    Args:
        policy: ``random``, ``oracle``, the folder of a Hugging Face model or checkpoint, a hub id, or the URL of an
            OpenAI-compatible server (``http://host:port/v1``; with ``#model`` the model's name).
        turns: replaces the turns of the horizon.
        temperature: replaces the temperature.
        sandboxes: replaces settings of the sandboxes by key.
        api_key_env: name of the environment variable with the key of a server.
        seed: two seeds give evaluations that share no task, unless the environment enumerates its tasks; 0 gives the
            tasks that a training run is evaluated on.

    Raises:
        TurnwiseError: the policy is none of these, or the environment is unknown or cannot be played by it, or there
            are more than ``SEED_STRIDE`` tasks, or the seed is too large.
    """
    began = monotonic()
    if tasks > SEED_STRIDE:
        raise TurnwiseError(
            f"`--tasks {tasks}`: one evaluation plays {SEED_STRIDE} tasks at most; use several `--seed`"
        )
    first_task(seed)
    database = open_database(store_url, create=True)
    chosen = Policy.named(policy, seed, api_key_env, "random, oracle, human")
    environment = EnvironmentConfig(id=env_id, options=dict(options or {}))
    with session(database, Command.EVAL, chosen, environment, turns, temperature, sandboxes) as opened:
        problems = tasks_of(env_id, tasks, split=split, seed=seed, options=options)
        played = opened.play(lambda players: play_tasks(players.store, "eval", problems, opened.horizon, players.play))
    return summarize(chosen.shown, opened.run, [environment], played, len(problems), monotonic() - began)


def tasks_of(env_id: str, count: int, *, split: str, seed: int, options: Mapping[str, Any] | None = None) -> list[Task]:
    """Return the tasks that an evaluation plays; fewer than ``count`` if the environment lists fewer.

    Raises:
        TurnwiseError: the seed is too large, or the environment cannot list its tasks.
    """
    environment = EnvironmentConfig(id=env_id, options=dict(options or {}))
    seeds = enumerated_seeds(env_id, environment.options, split)
    return held_out([environment], count, split, first_task(seed), [seeds])
