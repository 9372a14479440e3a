"""Evaluate any policy on held-out tasks: a random, an oracle, a checkpoint under vLLM, or a server by URL.

Each evaluation is a separate run in the store, so that its trajectories can be listed and replayed like any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from time import monotonic
from typing import Any

from ...agents.model_folder import is_hub_id, model_folder
from ...agents.rollout.group_runner import GroupRunner
from ...agents.rollout.timeouts import Timeouts
from ...agents.tokens.conversation import Chat
from ...envs.base import TurnEnv
from ...envs.errors import EnvError
from ...envs.runner.env_thread import EnvThread
from ...envs.runner.once import enumerated_seeds
from ...envs.sandboxes import any_sandboxed, lease_in_process
from ...errors import TurnwiseError
from ...masking import without_secrets
from ...process.start import absolute, restore
from ...records import Task
from ...store.database import Database, open_database
from ...store.run_lock import hold_evaluation
from ...store.run_store import RunStore, finish_if_running
from ...store.writing.client import StoreClient
from ...store.writing.writer import Writer
from ..algorithms.curriculum.horizons.constant import ConstantHorizon
from ..config.schema import RunConfig
from ..config.sections import EnvironmentConfig
from ..shutdown import SHUTDOWN
from .engine_players import FAILED_CLOSE_TIMEOUT_S
from .heldout import SEED, SEED_STRIDE, EvalResult, first_task, held_out, summarize
from .play_tasks import play_tasks
from .recording import recorded, run_name, until_signal
from .settings import EvalSettings, checked_settings, is_model
from .sight import Context, refuse_unseen
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
    asyncio.run(_can_be_played(policy, environment, settings.timeouts))
    problems = _problems(environment, tasks, split, seed)
    if not is_model(policy) and not is_token_free(policy):
        raise TurnwiseError(
            f"--policy {shown}: neither random, oracle, human, a folder with a model (no config.json there), nor a URL"
        )
    with hold_evaluation(database, run, SHUTDOWN.abandon):
        if is_model(policy):
            played = _with_engine(policy, environment, database, run, problems, settings)
        else:
            played = asyncio.run(
                until_signal(_with_player(policy, shown, database, run, problems, seed, settings, api_key_env))
            )
    return summarize(shown, run, [environment], played, len(problems), monotonic() - began)


def _problems(environment: EnvironmentConfig, count: int, split: str, seed: int) -> list[Task]:
    """Return the tasks to play."""
    seeds = enumerated_seeds(environment.id, environment.options, split)
    return held_out([environment], count, split, first_task(seed), [seeds])


async def _can_be_played(policy: str, environment: EnvironmentConfig, timeouts: Timeouts) -> None:
    """Check, before anything is stored, that the environment can be made and that this policy can play it.

    Raises:
        EnvError: it cannot be made.
        ImagesUnsupported: it returns images, and the policy is a server. A model is checked later, with sandboxes.
        TurnwiseError: it lacks the method that the policy calls (``valid_actions`` or ``oracle``).
    """
    if "://" in policy:
        await refuse_unseen([environment], "test", timeouts.reset_s)
    owner = EnvThread(environment.id, environment.options)
    await owner.make(timeouts.reset_s)
    asks = {"random": TurnEnv.valid_actions, "oracle": TurnEnv.oracle}.get(policy)
    try:
        if asks is not None:
            await owner.reset(SEED, "test", timeouts.reset_s)
            await owner.run(policy, lambda env: getattr(env, asks.__name__)(), timeouts.step_s)
    except EnvError as error:
        # Any other failure may be transient: the episodes record it.
        if isinstance(error.__cause__, NotImplementedError):
            raise TurnwiseError(f"--policy {policy} cannot play {environment.id}: {error.__cause__}") from error
    finally:
        await owner.close(timeouts.step_s)


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
    writer = Writer(database)
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
                lambda group: runner.play(group, [(0, 0)]),
                max_concurrent,
            )
    finally:
        await runner.close()
        await players.close()
        await asyncio.to_thread(writer.close)


def _with_engine(
    policy: str,
    environment: EnvironmentConfig,
    database: Database,
    run: str,
    problems: list[Any],
    settings: EvalSettings,
) -> list[Any]:
    from ..cluster.actors import Cluster
    from ..cluster.runtime import start_ray, stop_ray
    from ..learner.model.adapter_base import verify_base
    from ..rollout.group_player import play_group

    folder = absolute(policy).resolve()
    verify_base(folder)
    config = RunConfig(
        name=run,
        environments=[environment],
        rollout=settings.rollout,
        engine=settings.engine,
        horizon=ConstantHorizon(**asdict(settings.horizon)),
    )

    async def main() -> list[Any]:
        cluster = Cluster.start(config, database, folder)
        store = RunStore(run, database, cluster.store.client)
        try:
            context = Context(await asyncio.to_thread(Chat, folder), settings.horizon.max_context)
            await refuse_unseen([environment], "test", config.rollout.reset_timeout_s, context)
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
