"""An engine that died is restarted and serves its version again."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from turnwise.agents.tiny_model import new_model
from turnwise.store.database import open_database
from turnwise.trainer.cluster.actors import Cluster
from turnwise.trainer.cluster.runtime import start_ray, stop_ray
from turnwise.trainer.config.loading import parse_config

CONFIG = {
    "name": "r",
    "environments": [{"id": "turnwise/TextSite-v0"}],
    "engine": {"kv_cache_memory_bytes": 32 << 20},
    "horizon": {"max_context": 256},
}


@pytest.fixture
def ray() -> Iterator[None]:
    import ray

    started = not ray.is_initialized()
    start_ray()
    yield
    if started:
        stop_ray()


@pytest.mark.slow
@pytest.mark.chaos
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("ray")
def test_an_engine_that_dies_serves_the_loaded_weights_again(tmp_path: Path) -> None:
    model = new_model(tmp_path / "model", ["a"], hidden=32, layers=1, heads=1)
    database = open_database(f"sqlite:///{tmp_path}/turnwise.db", create=True)

    async def serves(cluster: Cluster, incarnation: str) -> bool:
        from ray.exceptions import RayError

        try:
            info = await cluster.engines.actors[0].info.remote()
        except RayError:
            return False
        return info["incarnation"] != incarnation and info["version"] == 3

    async def scenario() -> None:
        cluster = Cluster.start(parse_config(CONFIG), database, model)
        try:
            await cluster.ready()
            await cluster.engines.serve_loaded(3)
            before = await cluster.engines.actors[0].info.remote()
            assert before["version"] == 3
            os.kill(before["pid"], signal.SIGKILL)
            async with asyncio.timeout(90):
                while not await serves(cluster, before["incarnation"]):
                    await asyncio.sleep(0.2)
        finally:
            await cluster.close()

    asyncio.run(scenario())
