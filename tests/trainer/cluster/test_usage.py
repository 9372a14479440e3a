"""The busy seconds of a cluster's actors, of which some die."""

import asyncio
from typing import Any

import pytest
from ray.exceptions import RayActorError
from turnwise.trainer.cluster import usage
from turnwise.trainer.cluster.actors import Cluster, StoreAccess
from turnwise.trainer.cluster.engines import COUNTERS, EngineGroup
from turnwise.trainer.cluster.usage import Busy, ClusterUsage
from turnwise.trainer.rollout.worker_pool import WorkerPool


class Counting:
    """The handle of an engine, worker or writer whose counters all have the given values, one per call; None hangs."""

    def __init__(self, *values: float | Exception | None) -> None:
        self.info = self.usage = self
        self._left = list(values)

    async def remote(self) -> dict[str, Any]:
        value = self._left.pop(0)
        if isinstance(value, Exception):
            raise value
        if value is None:
            await asyncio.sleep(60)
        return dict.fromkeys((*COUNTERS, "cpu_s", "slot_s"), value)


def test_an_engine_that_does_not_answer_keeps_its_share_of_the_sums() -> None:
    group = EngineGroup([Counting(100, 101, 102, 103), Counting(50, RayActorError(), 2, 3)])

    async def scenario() -> list[float]:
        return [(await group.usage())["busy_s"] for _ in range(4)]

    assert asyncio.run(scenario()) == [0, 1, 4, 6]


def test_every_part_is_read_and_a_failed_call_leaves_its_last_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "ANSWER_TIMEOUT_S", 0.05)
    workers = iter([Counting(5, 7, None), Counting(5, 6, 7)])
    pool = WorkerPool(lambda _: next(workers), ["a", "b"])
    store = StoreAccess(None, {"a": Counting(1, 3, RayActorError())})  # type: ignore[arg-type]
    cluster = Cluster(EngineGroup([Counting(10, 20, 30)]), pool, store, None)

    async def scenario() -> list[dict[str, Busy]]:
        reader = ClusterUsage(cluster)
        return [await reader.read() for _ in range(3)]

    _, second, third = asyncio.run(scenario())
    assert second == {"engine": Busy(10, 1), "worker": Busy(3, 2), "slot": Busy(3, 2), "writer": Busy(2, 1)}
    assert third == {"engine": Busy(20, 1), "worker": Busy(4, 2), "slot": Busy(4, 2), "writer": Busy(2, 1)}
