"""The engine actor and its client: timeouts, session affinity, aborts, agreement, and the death of processes.

The death of an engine is in `make soak`; CI kills the engine of a whole run.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM
from turnwise.agents.engine.actor import start_engine
from turnwise.agents.engine.client import PolicyClient
from turnwise.agents.engine.config import EngineConfig
from turnwise.agents.engine.request import Sampling
from turnwise.agents.errors import EngineFailed
from turnwise.agents.tiny_model import new_model
from turnwise.agents.tokens.renderers import load_renderer
from turnwise.agents.weights.base import Link
from turnwise.agents.weights.shm import ShmSender
from turnwise.agents.weights.source import ParameterSource
from turnwise.tests.agents.engine.parity import WORDS, check, play

pytestmark = pytest.mark.slow

PROMPT = [5, 6, 7]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_model(tmp_path_factory.mktemp("engine") / "model", WORDS, seed=2, arch="llama", tie=False)


@pytest.fixture(scope="module")
def sender(model: Path) -> Iterator[ShmSender]:
    network = AutoModelForCausalLM.from_pretrained(model)
    found = ShmSender(ParameterSource(network.named_parameters()), Link())
    yield found
    found.close()


@pytest.fixture(scope="module")
def engine(ray: Any, run: Any, model: Path) -> Iterator[Any]:
    """Start an engine without a version."""
    actor = start_engine(EngineConfig(kv_cache_memory_bytes=32 << 20), model, 512)
    run(actor.info.remote())
    yield actor
    ray.kill(actor)


def written(sender: ShmSender) -> dict[str, Any]:
    """Write, and return the offer."""
    sender.write()
    return sender.offer(0, "")


async def info(engine: Any, timeout_s: float = 150) -> dict[str, Any]:
    """Return the engine's info once it is up."""
    from ray.exceptions import RayError

    async with asyncio.timeout(timeout_s):
        while True:
            try:
                return dict(await engine.info.remote())
            except RayError:
                await asyncio.sleep(0.2)


async def until(engine: Any, condition: Callable[[dict[str, Any]], bool]) -> None:
    """Wait until the engine's info meets a condition; the fixture ``run`` bounds the wait."""
    while not condition(await info(engine)):
        await asyncio.sleep(0.01)


def test_without_a_version_a_request_waits_until_its_timeout(run: Any, engine: Any) -> None:
    async def scenario() -> None:
        client = PolicyClient([engine], Sampling(stop=()))
        with pytest.raises(EngineFailed, match=r"no answer from engine 0 within 0\.3 s"):
            await client.generate("a", PROMPT, 4, 0.3)
        waiting = asyncio.ensure_future(client.generate("a", PROMPT, 4, 30))
        await until(engine, lambda state: state["waiting"] == 1)
        await engine.use_loaded_weights.remote(3)
        assert set((await waiting).versions) == {3}
        await client.close()

    run(scenario())


def test_a_turn_ends_by_the_stop_token_or_by_length(run: Any, engine: Any, model: Path) -> None:
    stop = tuple(load_renderer(model).stop_tokens)
    end = stop[0]

    async def scenario() -> None:
        await engine.use_loaded_weights.remote(3)
        client = PolicyClient([engine], Sampling(stop))
        turns = await asyncio.gather(*(client.generate(f"s{i}", PROMPT, 200, 30) for i in range(24)))
        for turn in turns:
            assert len(turn.tokens) == len(turn.logprobs) == len(turn.versions)
            stopped = end in turn.tokens
            assert (turn.finish_reason == "stop") == stopped
            assert (turn.tokens.index(end) == len(turn.tokens) - 1) if stopped else len(turn.tokens) == 200
        assert any(turn.finish_reason == "stop" for turn in turns)
        await client.close()

    run(scenario())


def test_a_request_has_its_own_sampling_and_reports_the_most_probable_tokens(
    run: Any, engine: Any, model: Path
) -> None:
    network = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    sampling = Sampling(stop=(), temperature=0.7, logprobs=3)

    async def scenario() -> None:
        await engine.use_loaded_weights.remote(3)
        client = PolicyClient([engine], Sampling(stop=()))
        plain = await client.generate("a", PROMPT, 8, 30)
        turn = await client.generate("a", PROMPT, 8, 30, sampling)
        greedy = await client.generate("a", PROMPT, 8, 30, Sampling(stop=(), temperature=0))
        await client.close()
        assert (len(plain.tokens), plain.top) == (8, [])
        with torch.no_grad():
            logits = network(torch.tensor([PROMPT + turn.tokens])).logits[0, len(PROMPT) - 1 : -1] / 0.7
        values, ids = logits.log_softmax(-1).topk(3)
        assert [[one for one, _ in row] for row in turn.top] == ids.tolist()
        assert torch.allclose(torch.tensor([[value for _, value in row] for row in turn.top]), values, atol=1e-4)
        with torch.no_grad():
            logits = network(torch.tensor([PROMPT + greedy.tokens])).logits[0, len(PROMPT) - 1 : -1]
        best = logits.log_softmax(-1).max(-1)
        assert greedy.tokens == best.indices.tolist()
        assert torch.allclose(torch.tensor(greedy.logprobs), best.values, atol=1e-4), "those at temperature 1"

    run(scenario())


@pytest.mark.parametrize("temperature", [-1.0, 0.001, float("nan")])
def test_a_temperature_that_vllm_would_change_is_refused(temperature: float) -> None:
    with pytest.raises(ValueError, match=r"must be 0, which is greedy, or at least 0\.01, not"):
        Sampling(stop=(), temperature=temperature)


def test_a_fast_request_does_not_wait_for_a_slow_one(run: Any, engine: Any) -> None:
    async def scenario() -> None:
        await engine.use_loaded_weights.remote(3)
        client = PolicyClient([engine], Sampling(stop=()))
        slow = [asyncio.ensure_future(client.generate("slow", PROMPT, 450, 30)) for _ in range(8)]
        await until(engine, lambda state: state["running"] > 0)
        await client.generate("fast", PROMPT, 1, 30)
        assert not all(task.done() for task in slow)
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        await until(engine, lambda state: state["running"] == 0)
        await client.close()

    run(scenario())


def test_a_rejected_request_fails_immediately(run: Any, engine: Any) -> None:
    async def scenario() -> None:
        await engine.use_loaded_weights.remote(3)
        client = PolicyClient([engine], Sampling(stop=()))
        with pytest.raises(EngineFailed, match="refused"):
            await client.generate("a", [5] * 600, 4, 30)
        with pytest.raises(EngineFailed, match="refused"):
            await client.generate("a", [], 4, 30)
        assert (await client.generate("a", PROMPT, 1, 30)).tokens
        await client.close()

    run(scenario())


def test_a_session_stays_on_its_replica(run: Any, engine: Any) -> None:
    """The two replicas are two handles of one actor: the test checks the choice of the client."""

    async def scenario() -> None:
        await engine.use_loaded_weights.remote(3)
        client = PolicyClient([engine, engine], Sampling(stop=()))
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


def test_it_agrees_with_the_learner_through_updates_in_flight_by_each_transport(
    run: Any, engine: Any, model: Path
) -> None:
    network = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    for way in ("shm", "collective"):
        snapshots, sampled = run(play(network, engine, way, sessions=10))
        check(network, snapshots, sampled)


@pytest.mark.soak
@pytest.mark.parametrize("cause", ["a mixture of two writes", "kill -9"])
def test_the_death_of_an_engine_fails_its_requests_and_it_restarts(
    run: Any, engine: Any, sender: ShmSender, cause: str
) -> None:
    """An engine that is sent a write which the buffer no longer holds ends, as it does if it is killed."""

    async def scenario() -> None:
        from ray.exceptions import RayError

        client = PolicyClient([engine], Sampling(stop=()))
        await engine.update_weights.remote(written(sender), 1)
        before = await info(engine)
        requests = [asyncio.ensure_future(client.generate(f"s{i}", PROMPT, 450, 60)) for i in range(8)]
        await until(engine, lambda state: state["running"] > 0)
        if cause == "kill -9":
            os.kill(before["pid"], signal.SIGKILL)
        else:
            stale = written(sender)
            sender.write()
            with pytest.raises(RayError):
                await engine.update_weights.remote(stale, 9)
        async with asyncio.timeout(10):
            results = await asyncio.gather(*requests, return_exceptions=True)
        assert any(isinstance(result, EngineFailed) for result in results)
        later = asyncio.ensure_future(client.generate("s0", PROMPT, 2, 60))
        after = await info(engine)
        assert after["incarnation"] != before["incarnation"]
        assert after["version"] is None
        await engine.update_weights.remote(written(sender), 2)
        assert set((await later).versions) == {2}
        await client.close()

    run(scenario())
