"""The engine actor and its client: deadlines, affinity, aborts, and the death of any of the processes."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForCausalLM
from turnwise.agents.engine.actor import start_engine
from turnwise.agents.engine.client import PolicyClient
from turnwise.agents.engine.config import EngineConfig
from turnwise.agents.errors import EngineFailed
from turnwise.agents.tiny_model import new_model
from turnwise.agents.tokens.conversation import Chat
from turnwise.agents.weights.shm_writer import WeightWriter

pytestmark = pytest.mark.slow

PROMPT = [5, 6, 7]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_model(tmp_path_factory.mktemp("engine") / "model", [f"w{i}" for i in range(120)], seed=2, tie=False)


@pytest.fixture(scope="module")
def writer(model: Path) -> Iterator[WeightWriter]:
    network = AutoModelForCausalLM.from_pretrained(model)
    made = WeightWriter(network.named_parameters())
    yield made
    made.close()


@pytest.fixture(scope="module")
def engine(ray: Any, run: Any, model: Path) -> Iterator[Any]:
    """A fresh engine, without a version."""
    actor = start_engine(EngineConfig(kv_cache_memory_bytes=32 << 20), model, 512)
    run(actor.info.remote())
    yield actor
    ray.kill(actor)


async def info(engine: Any, seconds: float = 150) -> dict[str, Any]:
    """The engine's info, as soon as it is up."""
    from ray.exceptions import RayError

    async with asyncio.timeout(seconds):
        while True:
            try:
                return dict(await engine.info.remote())
            except RayError:
                await asyncio.sleep(0.2)


def test_without_a_version_a_request_waits_until_its_deadline(run: Any, engine: Any) -> None:
    async def scenario() -> None:
        client = PolicyClient([engine])
        with pytest.raises(EngineFailed, match=r"no answer from engine 0 within 0\.3 s"):
            await client.generate("a", PROMPT, 4, 0.3)
        waiting = asyncio.ensure_future(client.generate("a", PROMPT, 4, 30))
        await asyncio.sleep(0.1)
        assert (await info(engine))["waiting"] == 1
        await engine.use_loaded_weights.remote(3)
        assert set((await waiting).versions) == {3}
        await client.close()

    run(scenario())


def test_a_turn_ends_by_the_stop_token_or_by_length(run: Any, engine: Any, model: Path) -> None:
    end = Chat(model).stop_tokens[0]

    async def scenario() -> None:
        await engine.use_loaded_weights.remote(3)
        client = PolicyClient([engine])
        turns = await asyncio.gather(*(client.generate(f"s{i}", PROMPT, 200, 30) for i in range(24)))
        for turn in turns:
            assert len(turn.tokens) == len(turn.logprobs) == len(turn.versions)
            stopped = end in turn.tokens
            assert (turn.finish_reason == "stop") == stopped
            assert (turn.tokens.index(end) == len(turn.tokens) - 1) if stopped else len(turn.tokens) == 200
        assert any(turn.finish_reason == "stop" for turn in turns)
        await client.close()

    run(scenario())


def test_a_fast_request_does_not_wait_for_a_slow_one(run: Any, engine: Any) -> None:
    async def scenario() -> None:
        await engine.use_loaded_weights.remote(3)
        client = PolicyClient([engine])
        slow = [asyncio.ensure_future(client.generate("slow", PROMPT, 450, 30)) for _ in range(8)]
        await asyncio.sleep(0.05)
        await client.generate("fast", PROMPT, 1, 30)
        assert not all(task.done() for task in slow)
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        for _ in range(50):
            if (await info(engine))["running"] == 0:
                break
            await asyncio.sleep(0.02)
        assert (await info(engine))["running"] == 0
        await client.close()

    run(scenario())


def test_a_refused_request_fails_at_once(run: Any, engine: Any) -> None:
    async def scenario() -> None:
        await engine.use_loaded_weights.remote(3)
        client = PolicyClient([engine])
        with pytest.raises(EngineFailed, match="refused"):
            await client.generate("a", [5] * 600, 4, 30)
        with pytest.raises(EngineFailed, match="refused"):
            await client.generate("a", [], 4, 30)
        assert (await client.generate("a", PROMPT, 1, 30)).tokens
        await client.close()

    run(scenario())


def test_a_session_stays_on_its_replica(run: Any, engine: Any) -> None:
    """Two replicas, here two handles of one actor: what counts is which one the client chooses."""

    async def scenario() -> None:
        await engine.use_loaded_weights.remote(3)
        client = PolicyClient([engine, engine])
        await asyncio.gather(*(client.generate(f"s{i}", PROMPT, 1, 30) for i in range(10)))
        first = dict(client._sessions)
        assert sorted(r.sessions for r in client._replicas) == [5, 5]
        await asyncio.gather(*(client.generate(f"s{i}", PROMPT, 1, 30) for i in range(10)))
        assert dict(client._sessions) == first
        client.release("s0")
        assert sum(r.sessions for r in client._replicas) == 9
        dead = first["s1"]
        dead.down = True
        assert client._route("s1") is not dead
        await client.close()

    run(scenario())


def test_a_mixture_of_two_writes_is_refused(run: Any, engine: Any, writer: WeightWriter) -> None:
    """The engine that was told of a write the buffer no longer holds ends, and comes back without a version."""

    async def scenario() -> None:
        before = await info(engine)
        stale = writer.write()
        writer.write()
        from ray.exceptions import RayError

        with pytest.raises(RayError):
            await engine.update_weights.remote(stale, 9)
        after = await info(engine)
        assert after["incarnation"] != before["incarnation"]
        assert after["version"] is None

    run(scenario())


@pytest.mark.chaos
def test_death_of_an_engine_fails_its_requests_and_it_comes_back(run: Any, engine: Any, writer: WeightWriter) -> None:
    async def scenario() -> None:
        client = PolicyClient([engine])
        await engine.update_weights.remote(writer.write(), 1)
        before = await info(engine)
        asked = [asyncio.ensure_future(client.generate(f"s{i}", PROMPT, 450, 60)) for i in range(8)]
        await asyncio.sleep(0.1)
        os.kill(before["pid"], signal.SIGKILL)
        async with asyncio.timeout(10):
            results = await asyncio.gather(*asked, return_exceptions=True)
        assert any(isinstance(result, EngineFailed) for result in results)
        later = asyncio.ensure_future(client.generate("s0", PROMPT, 2, 60))
        assert (await info(engine))["incarnation"] != before["incarnation"]
        await engine.update_weights.remote(writer.write(), 2)
        assert set((await later).versions) == {2}
        await client.close()

    run(scenario())
