"""A worker counts as lost if it overruns its timeout or stops answering, never because a member queues."""

import asyncio
import re
from typing import Any

import pytest
from turnwise.agents.rollout.assignment import Assignment
from turnwise.errors import TurnwiseError
from turnwise.records import Status
from turnwise.tests.agents.players import group, site
from turnwise.tests.trainer.cluster.slow_workers import Broken, Killed, Raising, Slow
from turnwise.trainer.rollout import worker_pool
from turnwise.trainer.rollout.worker_pool import WorkerLost, WorkerPool

pytestmark = pytest.mark.slow
TIMEOUT_S = 2.0


LOADS: dict[str, tuple[float, float, bool, str]] = {
    "queues": (2 * TIMEOUT_S, 0.1, False, ""),
    "overruns": (0.0, 1000.0, False, "one member has been playing for"),
    "silent": (0.0, 1000.0, True, "no answer for 2 s"),
}
"""Seconds of queuing and of playing, whether the worker blocks, and why it is lost."""


def test_a_worker_is_lost_by_a_playing_member_not_by_a_queued_one(ray: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "CHECK_INTERVAL_S", 0.3)
    remote = ray.remote(Slow).options(num_cpus=0, max_concurrency=100)
    said: list[str] = []

    def new_pool(queues_s: float, plays_s: float, blocks: bool) -> WorkerPool:
        return WorkerPool(lambda _: remote.remote(queues_s, plays_s, blocks), ["here"], note=said.append)

    async def play(pool: WorkerPool, lost: str) -> None:
        if lost:
            with pytest.raises(WorkerLost, match=lost):
                await pool.play(Assignment.whole(group(site())), TIMEOUT_S)
            assert pool.replaced == 1
            await pool.ready(60)
        else:
            (outcome,) = await pool.play(Assignment.whole(group(site())), TIMEOUT_S)
            assert outcome.status is Status.COMPLETED
            assert pool.replaced == 0
        await pool.close()

    async def scenario() -> None:
        pools = [(new_pool(queues_s, plays_s, blocks), lost) for queues_s, plays_s, blocks, lost in LOADS.values()]
        await asyncio.gather(*(pool.ready(60) for pool, _ in pools))
        await asyncio.gather(*(play(pool, lost) for pool, lost in pools))

    asyncio.run(scenario())
    assert len(said) == sum(1 for *_, lost in LOADS.values() if lost)
    assert all(line.startswith("a rollout worker was lost (") for line in said)


def test_a_worker_that_ray_ended_for_memory_is_lost_for_that_reason(ray: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is injected; in `make soak` Ray ends a worker (``tests/trainer/cluster/test_short_memory.py``)."""

    async def ended(*_: Any) -> None:
        raise ray.exceptions.OutOfMemoryError("Ray killed it: see docs.ray.io")

    monkeypatch.setattr(worker_pool, "_supervised", ended)
    remote = ray.remote(Slow).options(num_cpus=0, max_concurrency=100)

    async def scenario() -> None:
        pool = WorkerPool(lambda _: remote.remote(0.0, 0.1, False), ["here"])
        with pytest.raises(WorkerLost) as raised:
            await pool.play(Assignment.whole(group(site())), TIMEOUT_S)
        lost = "the rollout worker of group g was lost: its host ran short of memory, so Ray ended it"
        assert str(raised.value) == lost
        assert pool.replaced == 1
        ray.kill(*pool.actors)  # it has not started yet, and holds nothing

    asyncio.run(scenario())


def test_a_node_on_which_no_worker_starts_gets_no_groups(
    ray: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(worker_pool, "CHECK_INTERVAL_S", 0.3)
    good, broken = (ray.remote(one).options(num_cpus=0, max_concurrency=100) for one in (Slow, Broken))
    started: list[str] = []

    def start(node: str) -> Any:
        started.append(node)
        return broken.remote() if node == "broken" else good.remote(0.0, 0.5, False)

    async def scenario() -> None:
        pool = WorkerPool(start, ["good"])
        await pool.ready(60)
        playing = asyncio.ensure_future(pool.play(Assignment.whole(group(site())), 60))
        await pool.place(["good", "broken"])
        await pool.place(["good", "broken"])
        assert started == ["good", "broken"], "it is tried again a minute later"
        assert len(pool.actors) == 1
        assert "no model folder here" in caplog.text
        (outcome,) = await playing
        assert outcome.status is Status.COMPLETED
        await pool.place(["good", "other"])
        assert len(pool.actors) == 2
        await pool.close()

    asyncio.run(scenario())


def test_a_worker_killed_while_it_starts_is_an_error_with_a_remedy(ray: Any) -> None:
    remote = ray.remote(Killed).options(num_cpus=0, max_concurrency=100)
    pool = WorkerPool(lambda _: remote.remote(), ["here"])
    with pytest.raises(TurnwiseError, match=r"^a rollout worker could not start: .*same command") as raised:
        asyncio.run(pool.ready(60))
    assert not re.search("OOM|Worker exit", str(raised.value))


REASONS = {
    "pydantic": "ValidationError: 1 validation error for Refused: size: Value error, User-specified size (512) is "
    "greater than 128. Set it to less",
    "chained": "RuntimeError: the kernel: no such head size: 96 of 64",
    "empty": "AssertionError",
    "own": "UnusableChat: `folder`: it has no chat template",
}


def test_the_whole_reason_of_a_worker_that_raises_while_it_starts_is_shown(ray: Any) -> None:
    remote = ray.remote(Raising).options(num_cpus=0, max_concurrency=100)

    async def reason(how: str) -> str:
        pool = WorkerPool(lambda _: remote.remote(how), ["here"])
        with pytest.raises(TurnwiseError) as raised:
            await pool.ready(60)
        return str(raised.value)

    async def scenario() -> list[str]:
        return await asyncio.gather(*map(reason, REASONS))

    shown = "a rollout worker could not start: {}; `turnwise runs logs RUN` shows where"
    assert asyncio.run(scenario()) == [shown.format(one) for one in REASONS.values()]


def test_the_last_worker_stays_until_another_answers(ray: Any) -> None:
    good, broken = (ray.remote(one).options(num_cpus=0, max_concurrency=100) for one in (Slow, Broken))

    async def scenario() -> None:
        pool = WorkerPool(lambda node: broken.remote() if node == "broken" else good.remote(0.0, 0.1, False), ["left"])
        await pool.ready(60)
        (last,) = pool.actors
        await pool.place(["broken"])
        assert pool.actors == [last]
        await pool.place(["joined"])
        assert len(pool.actors) == 1
        assert pool.actors != [last]
        await pool.close()

    asyncio.run(scenario())


def test_the_workers_follow_again_after_ray_raised(ray: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "CHECK_INTERVAL_S", 0.1)
    remote = ray.remote(Slow).options(num_cpus=0, max_concurrency=100)
    failures = ["no answer from Ray's head"]

    def start(node: str) -> Any:
        if node == "joined" and failures:
            raise ConnectionError(failures.pop())
        return remote.remote(0.0, 0.1, False)

    async def scenario() -> None:
        pool = WorkerPool(start, ["here"])
        pool.follow(lambda: ["here", "joined"])
        async with asyncio.timeout(60):
            while len(pool.actors) < 2:
                await asyncio.sleep(0.05)
        assert not failures
        await pool.close()

    asyncio.run(scenario())
