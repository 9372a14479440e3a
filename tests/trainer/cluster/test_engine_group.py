"""Engines of which some die, hang or refuse a call."""

import asyncio
from typing import Any

import pytest
from ray.exceptions import RayActorError
from turnwise.errors import TurnwiseError
from turnwise.trainer.cluster import engines
from turnwise.trainer.cluster.engines import EngineGroup


class Faulty:
    """An engine's handle: it fails a number of calls, and then answers after a time that it has no version."""

    def __init__(self, node: str, deaths: int = 0, delay_s: float = 0.0) -> None:
        self.info = self
        self._node, self._deaths, self._delay_s = node, deaths, delay_s

    async def remote(self) -> dict[str, Any]:
        if self._deaths:
            self._deaths -= 1
            raise RayActorError
        await asyncio.sleep(self._delay_s)
        return {"node": self._node, "version": None}


def test_an_engine_that_died_is_read_after_its_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "RETRY_INTERVAL_S", 0.001)
    group = EngineGroup([Faulty("a"), Faulty("b", deaths=2), Faulty("a")])
    assert asyncio.run(group.nodes()) == {"a", "b"}


def test_an_engine_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "PUSH_TIMEOUT_S", 0.1)
    group = EngineGroup([Faulty("a"), Faulty("b", delay_s=60)])
    with pytest.raises(TurnwiseError, match=r"within 0\.1 s"):
        asyncio.run(group.nodes())
