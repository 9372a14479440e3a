"""An engine whose vLLM lacks an inner name uses ``AsyncLLM``, with the same guarantees.

Only in ``make soak``: the locked vLLM has all names, which ``test_vllm.py`` checks.
"""

import asyncio
import os
import signal
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from ray.exceptions import RayActorError
from transformers import AutoModelForCausalLM
from turnwise.agents.engine import actor
from turnwise.agents.engine.async_core import WATCH_INTERVAL_S
from turnwise.agents.engine.client import PolicyClient
from turnwise.agents.engine.config import EngineConfig
from turnwise.agents.tiny_model import new_model
from turnwise.tests.agents.engine.parity import WORDS, check, play

pytestmark = pytest.mark.soak


class WithoutEngineCore(actor.Engine):
    """An engine whose vLLM lacks a name of its core."""

    def __init__(self, *arguments: Any) -> None:
        core: Any = import_module("turnwise.agents.engine.core")
        core.ENGINE_CORE = (*core.ENGINE_CORE, "vllm.v1.engine.core:EngineCore.renamed")
        super().__init__(*arguments)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_model(tmp_path_factory.mktemp("engine") / "model", WORDS, seed=5)


@pytest.fixture(scope="module")
def engine(ray: Any, model: Path) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(actor, "Engine", WithoutEngineCore)
        started = actor.start_engine(EngineConfig(kv_cache_memory_bytes=32 << 20), model)
    yield started
    ray.kill(started)


def test_it_agrees_with_the_learner_through_updates_in_flight(engine: Any, model: Path, run: Any) -> None:
    network = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    snapshots, sampled = run(play(network, engine, "shm", sessions=8))
    check(network, snapshots, sampled)


def test_an_aborted_request_ends_and_the_counters_count(engine: Any, run: Any) -> None:
    async def scenario() -> None:
        await engine.use_loaded_weights.remote(30)
        before = dict(await engine.info.remote())
        client = PolicyClient([engine])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await client.generate("long", [5, 6, 7], 900, 60)
        completion = await client.generate("short", [5, 6, 7], 4, 60)
        assert set(completion.versions) == {30}
        await client.close()
        async with asyncio.timeout(30):
            while (info := dict(await engine.info.remote()))["running"]:
                await asyncio.sleep(0.05)
        assert info["sampled_tokens"] - before["sampled_tokens"] == len(completion.tokens)
        assert info["prompt_tokens"] - before["prompt_tokens"] == 3
        assert info["busy_s"] > before["busy_s"]

    run(scenario())


def test_the_death_of_vllm_ends_a_call_that_waits_for_it(engine: Any, run: Any) -> None:
    async def scenario() -> None:
        _, child = await processes(engine)
        child.suspend()
        call = engine.use_loaded_weights.remote(31)
        await asyncio.sleep(0.5)
        child.kill()
        async with asyncio.timeout(30):
            with pytest.raises(RayActorError):
                await call

    run(scenario())


async def processes(engine: Any) -> tuple[psutil.Process, psutil.Process]:
    """Return the process of the actor, once it is up, and that of vLLM."""
    async with asyncio.timeout(90):
        while True:
            try:
                parent = psutil.Process(dict(await engine.info.remote())["pid"])
                break
            except RayActorError:
                await asyncio.sleep(0.5)
    return parent, next(one for one in parent.children(recursive=True) if "EngineCore" in one.name())


@pytest.mark.parametrize("victim", ["vLLM's process", "the actor"])
def test_neither_process_outlives_the_other(engine: Any, run: Any, victim: str) -> None:
    async def scenario() -> None:
        parent, child = await processes(engine)
        await engine.use_loaded_weights.remote(1)
        client = PolicyClient([engine])
        await client.generate("one", [5, 6, 7], 4, 60)
        waiting = asyncio.ensure_future(client.generate("two", [5, 6, 7], 900, 60))
        await asyncio.sleep(0.1)
        os.kill(child.pid if victim == "vLLM's process" else parent.pid, signal.SIGKILL)
        with pytest.raises(Exception, match="died"):
            await waiting
        await asyncio.to_thread(psutil.wait_procs, [parent, child], timeout=30)
        assert not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in (parent, child))
        await client.close()

    run(scenario())


def test_a_stop_does_not_look_like_a_death(engine: Any, run: Any) -> None:
    async def scenario() -> None:
        async with asyncio.timeout(90):
            while True:
                try:
                    await engine.use_loaded_weights.remote(1)
                    before = dict(await engine.info.remote())
                    break
                except RayActorError:
                    await asyncio.sleep(0.5)
        await engine.stop.remote()
        await asyncio.sleep(3 * WATCH_INTERVAL_S)
        assert dict(await engine.info.remote())["incarnation"] == before["incarnation"]

    run(scenario())
