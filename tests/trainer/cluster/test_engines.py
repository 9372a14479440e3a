"""Two real engines take a new version in turns, and one that is restarted gets the version of the other."""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM
from turnwise.agents.engine.actor import start_engine
from turnwise.agents.engine.client import PolicyClient
from turnwise.agents.engine.config import EngineConfig
from turnwise.agents.engine.request import Sampling
from turnwise.agents.placement import own_node
from turnwise.agents.tiny_model import new_model
from turnwise.agents.weights.base import Link, transport
from turnwise.agents.weights.source import ParameterSource
from turnwise.trainer.cluster import engines
from turnwise.trainer.cluster.engines import EngineGroup

pytestmark = [pytest.mark.soak, pytest.mark.slow]

TRANSFER_S = 1.0
"""Seconds by which the gathering of the weights is delayed."""


class Slow:
    """The weights of a model, one of which takes long to gather."""

    def __init__(self, folder: Path) -> None:
        self.model = AutoModelForCausalLM.from_pretrained(folder)
        self.last = list(self.model.parameters())[-1]
        self.gathered = 0

    def whole(self, value: torch.Tensor) -> torch.Tensor:
        if value is self.last:
            self.gathered += 1
            time.sleep(TRANSFER_S)
        return value

    def change(self) -> None:
        with torch.no_grad():
            for value in self.model.parameters():
                value.mul_(1.01)


async def state(actor: Any) -> dict[str, Any]:
    from ray.exceptions import RayError

    while True:
        try:
            return dict(await actor.info.remote())
        except RayError:
            await asyncio.sleep(0.2)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    while not await condition():
        await asyncio.sleep(0.1)


@pytest.mark.parametrize("way", ["shm", "collective"])
def test_engines_take_a_version_in_turns(ray: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setattr(engines, "WATCH_INTERVAL_S", 0.2)
    folder = new_model(tmp_path / "model", [f"w{index}" for index in range(60)], seed=1)
    slow = Slow(folder)
    sender = transport(way).sender(ParameterSource(slow.model.named_parameters(), slow.whole), Link())
    group = EngineGroup([start_engine(EngineConfig(kv_cache_memory_bytes=32 << 20), folder, 256) for _ in range(2)])
    clients = [PolicyClient([actor], Sampling(stop=())) for actor in group.actors]

    async def sample(number: int, ends: list[tuple[float, set[int]]]) -> None:
        while True:
            turn = await clients[number].generate("s", [5, 6, 7], 4, 60)
            ends.append((time.monotonic(), set(turn.versions)))

    async def scenario() -> None:
        assert await group.nodes() == {own_node()}
        await group.publish(sender, 0)
        assert slow.gathered == (1 if way == "shm" else 2)
        ends: list[list[tuple[float, set[int]]]] = [[], []]
        sampling = [asyncio.create_task(sample(number, ends[number])) for number in range(2)]
        slow.change()
        begin = time.monotonic()
        await group.publish(sender, 1)
        middle = begin + (time.monotonic() - begin) / 2
        await asyncio.sleep(1.0)
        for task in sampling:
            task.cancel()
        await asyncio.gather(*sampling, return_exceptions=True)
        for number, found in enumerate(ends):
            assert {version for _, versions in found for version in versions} == {0, 1}
            during = [when for when, _ in found if begin < when < middle + TRANSFER_S / 2]
            assert during, f"engine {number} sampled nothing while the other one was updated"

        pids = [(await state(actor))["pid"] for actor in group.actors]
        group.watch()
        async with group.training():
            slow.change()
            os.kill(pids[0], signal.SIGKILL)
            await until(lambda: restarted(pids[0]))
            await asyncio.sleep(1.0)
            served = (await state(group.actors[0]))["version"]
            assert served == (1 if sender.keeps_weights else None)
            await group.publish(sender, 2)
        assert [(await state(actor))["version"] for actor in group.actors] == [2, 2]
        os.kill(pids[1], signal.SIGKILL)
        await until(lambda: has_version(group.actors[1], 2, pids[1]))
        assert group.failure is None
        for client in clients:
            await client.close()
        await group.close()

    async def restarted(pid: int) -> bool:
        return bool((await state(group.actors[0]))["pid"] != pid)

    async def has_version(actor: Any, version: int, pid: int) -> bool:
        found = await state(actor)
        return bool(found["pid"] != pid and found["version"] == version)

    async def bounded() -> None:
        async with asyncio.timeout(400):
            await scenario()

    asyncio.run(bounded())
    sender.close()
