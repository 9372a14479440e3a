"""Evaluate any policy on held-out tasks: a random, an oracle, a checkpoint under vLLM, or a server by URL.

Each evaluation is a separate run in the store, so that its trajectories can be listed and replayed like any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

from ...agents.model_folder import is_hub_id, model_folder
from ...agents.rollout.assignment import Assignment
from ...agents.rollout.group_runner import GroupRunner
from ...envs.runner.once import enumerated_seeds
from ...envs.sandboxes import any_sandboxed, lease_in_process
from ...envs.tasks import make_task
from ...errors import TurnwiseError
from ...masking import without_secrets
from ...process.start import absolute, restore
from ...records import Task
from ...store.database import Database, open_database
from ...store.run_lock import hold_evaluation
from ...store.run_store import RunStore, finish_if_running
from ...store.writing.client import StoreClient
from ...store.writing.commit_queue import CommitQueue
from ..config.schema import RunConfig
from ..config.sections import EnvironmentConfig
from ..preflight.check import check
from ..preflight.refusal import Command, Stage, refuse
from ..shutdown import SHUTDOWN
from .engine_players import FAILED_CLOSE_TIMEOUT_S
from .heldout import SEED_STRIDE, EvalResult, first_task, held_out, summarize
from .play_tasks import play_tasks
from .recording import recorded, run_name, until_signal
from .settings import EvalSettings, checked_settings, is_model
from .token_free import TokenFreePlayers, check_key, is_token_free

CONCURRENCY = 64
"""Episodes at once."""
SANDBOXED_CONCURRENCY = 8
"""Of those, in environments that hold sandboxes of this process."""


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
    """Play ``tasks`` tasks once each and store them. On the training split, these are the environment's enumerated
    tasks if it has some.

    A checkpoint plays the longest horizon of its run, at the run's temperature, with its timeouts and the settings of
    its sandboxes.

    Args:
        policy: ``random``, ``oracle``, the folder of a Hugging Face model or checkpoint, a hub id, or the URL of an
            OpenAI-compatible server (``http://host:port/v1``; with ``#model`` the model's name).
        turns: replaces the turns of the horizon.
        temperature: replaces the temperature.
        sandboxes: replaces settings of the sandboxes by key.
        api_key_env: name of the environment variable with the key of a server.
        seed: two seeds give evaluations that share no task; 0 gives the tasks a training run is evaluated on.

    Raises:
        TurnwiseError: the policy is none of these, or the environment is unknown or cannot be played by it, or there
            are more than ``SEED_STRIDE`` tasks, or the seed is too large.
    """
    began = monotonic()
    if tasks > SEED_STRIDE:
        raise TurnwiseError(
            f"`--tasks {tasks}`: one evaluation plays {SEED_STRIDE} tasks at most; use several `--seed`"
        )
    named = policy
    if is_hub_id(policy) and not is_model(policy):
        policy = str(model_folder(policy, "--policy"))
    check_key(policy, api_key_env)
    first_task(seed)
    database = open_database(store_url, create=True)
    environment = EnvironmentConfig(id=env_id, options=dict(options or {}))
    shown = named if is_model(policy) else without_secrets(policy)
    run = run_name("eval", shown)
    settings = checked_settings(policy, turns, temperature, sandboxes)
    lease_in_process(settings.sandboxes)
    SHUTDOWN.hint = "stopping the evaluation (a second signal ends it at once)"
    SHUTDOWN.record = partial(finish_if_running, database, run)
    SHUTDOWN.unblock()
    config = settings.run_config(run, environment)
    model = absolute(policy).resolve() if is_model(policy) else None
    refuse(check(config, Command.EVAL, model=model, policy="" if model else policy))
    problems = _problems(environment, tasks, split, seed)
    if not is_model(policy) and not is_token_free(policy):
        raise TurnwiseError(
            f"--policy {shown}: neither random, oracle, human, a folder with a model (no config.json there), nor a URL"
        )
    with hold_evaluation(database, run, SHUTDOWN.abandon):
        if model is not None:
            played = _with_engine(policy, model, config, database, problems, settings)
        else:
            played = asyncio.run(
                until_signal(_with_player(policy, shown, database, run, problems, seed, settings, api_key_env))
            )
    return summarize(shown, run, [environment], played, len(problems), monotonic() - began)


def _problems(environment: EnvironmentConfig, count: int, split: str, seed: int) -> list[Task]:
    """Return the tasks to play: those a run trains on if the environment enumerates them, otherwise new ones."""
    seeds = enumerated_seeds(environment.id, environment.options) if split == "train" else None
    if seeds is None:
        return held_out([environment], count, split, first_task(seed))
    return [make_task(environment.id, one, split, environment.options) for one in seeds[:count]]


async def _with_player(
    policy: str,
    shown: str,
    database: Database,
    run: str,
    problems: list[Any],
    seed: int,
    settings: EvalSettings,
    api_key_env: str,
) -> list[Any]:
    """Play the tasks without an engine; ``shown`` is the policy as it is stored, without secrets."""
    players = TokenFreePlayers(policy, seed, settings, api_key_env)
    writer = CommitQueue(database)
    store = RunStore(run, database, StoreClient(writer.run, database.blobs))
    runner = GroupRunner(store.client, players.create, settings.timeouts, {}, shown, players.source)
    sandboxed = any_sandboxed(task.env_id for task in problems)
    # An episode may hold one sandbox for itself and one for grading.
    fitting = max(1, settings.sandboxes.max_per_node // 2)
    max_concurrent = min(SANDBOXED_CONCURRENCY, fitting) if sandboxed else CONCURRENCY
    try:
        async with recorded(store, shown, {"seed": seed, **settings.json()}):
            return await play_tasks(
                store,
                "eval",
                problems,
                settings.horizon,
                lambda group: runner.play(Assignment.whole(group)),
                max_concurrent,
            )
    finally:
        await runner.close()
        await players.close()
        await asyncio.to_thread(writer.close)


def _with_engine(
    policy: str, folder: Path, config: RunConfig, database: Database, problems: list[Any], settings: EvalSettings
) -> list[Any]:
    from ..cluster.actors import Cluster
    from ..cluster.runtime import start_ray, stop_ray
    from ..rollout.group_player import play_group

    async def main() -> list[Any]:
        cluster = Cluster.start(config, database, folder)
        store = RunStore(config.name, database, cluster.store.client)
        try:
            refuse(await asyncio.to_thread(check, config, Command.EVAL, stage=Stage.ACTORS, model=folder))
            await cluster.ready()
            await cluster.engines.serve_loaded(0)
            timeout_s = config.rollout.group_timeout_s
            async with recorded(store, policy, settings.json()):
                return await play_tasks(
                    store,
                    "eval",
                    problems,
                    settings.horizon,
                    lambda group: play_group(cluster.workers, store, group, timeout_s),
                )
        finally:
            async with asyncio.timeout(FAILED_CLOSE_TIMEOUT_S if SHUTDOWN.failure else None):
                await cluster.close()

    restore()
    start_ray()
    try:
        return asyncio.run(until_signal(main()))
    finally:
        stop_ray()
