"""An actor that Ray's memory monitor ends counts as dead: it is replaced, and the run goes on.

Each case runs in a process with a Ray of its own, whose monitor sees a shortage in any use of memory.
Only `make soak` runs them: the monitor is given 10 s before its first kill. CI injects the errors that Ray raises.
"""

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import pytest
from turnwise.errors import TurnwiseError

PERIOD_MS = 10_000
"""Between two checks of the monitor: actors start and work within it."""


def learner_rank() -> None:
    """Update until a rank is ended."""
    from turnwise.agents.tiny_model import new_model
    from turnwise.tests.trainer.learner.train_samples import VOCABULARY, train_samples
    from turnwise.trainer.algorithms.losses.decoupled_ppo import DecoupledPPO
    from turnwise.trainer.algorithms.proximal.recompute import Recompute
    from turnwise.trainer.config.sections import LearnerConfig
    from turnwise.trainer.learner.backends.base import RankFailed
    from turnwise.trainer.learner.backends.fsdp import FsdpLearner

    with tempfile.TemporaryDirectory() as folder:
        model = new_model(Path(folder) / "model", VOCABULARY, hidden=32, heads=2, seed=3)
        config = LearnerConfig(backend="fsdp", num_ranks=2)
        try:
            learner = FsdpLearner(model, config, DecoupledPPO(), Recompute(), 1.0)
            for update in range(100_000):
                learner.update(train_samples(update), 0.0, update, Random(update))
        except RankFailed as failure:
            print(failure)


def rollout_worker() -> None:
    """Play until the worker is ended."""
    import ray
    from turnwise.agents.rollout.assignment import Assignment
    from turnwise.tests.agents.players import group, site
    from turnwise.tests.trainer.cluster.slow_workers import Slow
    from turnwise.trainer.rollout.worker_pool import WorkerLost, WorkerPool

    async def play() -> None:
        remote = ray.remote(Slow).options(num_cpus=0, max_concurrency=100)
        pool = WorkerPool(lambda _: remote.remote(0.0, 1000.0, False), ["here"])
        for _ in range(3):  # the monitor may end a worker that starts, too
            with contextlib.suppress(TurnwiseError):
                await pool.ready(60)
                break
        try:
            await pool.play(Assignment.whole(group(site())), 200)
        except WorkerLost as failure:
            print(failure, "| replaced:", pool.replaced)

    asyncio.run(play())


def store_writer() -> None:
    """Commit a write and close the store, each by a call in which the writer is ended."""
    import ray
    from turnwise.agents.store_actor import StoreActor, send_to
    from turnwise.store import operations
    from turnwise.store.database import open_database
    from turnwise.store.operations import Write
    from turnwise.store.writing.client import StoreClient
    from turnwise.tests.store.making import create_run, group
    from turnwise.trainer.cluster.actors import StoreAccess

    folder = Path(tempfile.mkdtemp())

    class Held(StoreActor):
        """Answers no first call."""

        async def run(self, writes: list[Write[Any]]) -> list[Any]:
            await held("run")
            return await super().run(writes)

        async def close(self) -> None:
            await held("close")

    async def held(call: str) -> None:
        if not (folder / call).exists():
            (folder / call).touch()
            await asyncio.sleep(600)

    database = open_database(f"sqlite:///{folder}/turnwise.db", create=True)
    create_run(database)
    writer = ray.remote(Held).options(num_cpus=0, max_restarts=-1).remote(database.address, None)
    client = StoreClient(send_to(writer))

    async def commit_and_close() -> None:
        await client.submit(operations.open_group.bind(group=group()), timeout_s=100)
        await StoreAccess(client, {"here": writer}).close()
        print("closed after", *sorted(one.name for one in folder.iterdir() if one.name in ("close", "run")))

    asyncio.run(commit_and_close())


def in_short_memory(case: str, period_ms: int = PERIOD_MS, timeout_s: float = 120) -> str:
    """Return the output of one of the cases, in its own process, whose monitor checks every ``period_ms``."""
    command = [sys.executable, "-W", "ignore", "-m", __spec__.name, case]
    settings = {"RAY_memory_usage_threshold": "0.01", "RAY_memory_monitor_refresh_ms": str(period_ms)}
    done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, timeout=timeout_s)
    return done.stdout or done.stderr[-2000:]


@pytest.mark.soak
def test_a_store_writer_that_ray_ended_for_memory_gets_its_writes_again_and_may_be_closed() -> None:
    assert "closed after close run" in in_short_memory("store_writer", 3 * PERIOD_MS, 400)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("case", "expected"),
    [("learner_rank", "of the learner died during"), ("rollout_worker", "the rollout worker of group")],
)
def test_an_actor_that_ray_ended_for_memory_counts_as_dead(case: str, expected: str) -> None:
    found = in_short_memory(case)
    assert expected in found
    assert "its host ran short of memory, so Ray ended it" in found
    assert "docs.ray.io" not in found, "Ray's advice is about Ray's settings"


if __name__ == "__main__":
    from turnwise.trainer.cluster.runtime import start_ray, stop_ray

    start_ray()
    try:
        {"learner_rank": learner_rank, "rollout_worker": rollout_worker, "store_writer": store_writer}[sys.argv[1]]()
    finally:
        stop_ray()
