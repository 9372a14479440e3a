"""A checkpoint under vLLM as a factory of players in this process, for episodes that no rollout worker can begin."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from ...agents.engine.client import PolicyClient
from ...agents.engine.request import Sampling
from ...agents.rollout.player import Player
from ...agents.tokens.renderers import load_renderer
from ...envs.runner.env_thread import EnvThread
from ...records import Group, Task, Trajectory
from ...store.database import Database
from ...store.writing.client import StoreClient
from ..config.sections import EnvironmentConfig
from ..shutdown import SHUTDOWN
from .settings import EvalSettings

FAILED_CLOSE_TIMEOUT_S = 3.0
"""Seconds the actors get to close after Ray died."""

CreatePlayer = Callable[[EnvThread, Group, Trajectory], Player]


@asynccontextmanager
async def engine_players(
    folder: Path, task: Task, database: Database, run: str, settings: EvalSettings
) -> AsyncIterator[tuple[StoreClient, CreatePlayer]]:
    """Start the engine of a checkpoint; yield the path into the store, and the factory. Ray must be up.

    Raises:
        TurnwiseError: the engine did not start.
    """
    from ..cluster.actors import Cluster, player_factory

    config = settings.run_config(run, EnvironmentConfig(id=task.env_id, options=dict(task.options)))
    renderer, create = load_renderer(folder), player_factory(settings.rollout)
    sampling = Sampling(tuple(renderer.stop_tokens), settings.rollout.temperature)
    cluster = Cluster.start(config, database, folder)
    client = PolicyClient(cluster.engines.actors, sampling)
    try:
        await cluster.ready()
        await cluster.engines.serve_loaded(0)

        def player(env_thread: EnvThread, group: Group, trajectory: Trajectory) -> Player:
            return create(client, renderer, env_thread, group, trajectory, settings.timeouts.turn_s)

        yield cluster.store.client, player
    finally:
        async with asyncio.timeout(FAILED_CLOSE_TIMEOUT_S if SHUTDOWN.failure else None):
            await client.close()
            await cluster.close()
