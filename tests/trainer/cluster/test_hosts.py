"""The hosts of the engines, of which some die or hang."""

import asyncio
from typing import Any

import pytest
from ray.exceptions import RayActorError
from turnwise.errors import TurnwiseError
from turnwise.trainer.cluster import engines
from turnwise.trainer.cluster.engines import EngineGroup


class Faulty:
    """An engine's handle: it fails a number of calls, and then answers after a time."""

    def __init__(self, host: str, deaths: int = 0, delay_s: float = 0.0) -> None:
        self.info = self
        self._host, self._deaths, self._delay_s = host, deaths, delay_s

    async def remote(self) -> dict[str, Any]:
        if self._deaths:
            self._deaths -= 1
            raise RayActorError
        await asyncio.sleep(self._delay_s)
        return {"host": self._host}


def test_an_engine_that_died_is_read_after_its_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "RETRY_INTERVAL_S", 0.001)
    group = EngineGroup([Faulty("a"), Faulty("b", deaths=2), Faulty("a")])
    assert asyncio.run(group.hosts()) == {"a", "b"}


def test_an_engine_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "PUSH_TIMEOUT_S", 0.1)
    group = EngineGroup([Faulty("a"), Faulty("b", delay_s=60)])
    with pytest.raises(TurnwiseError, match=r"within 0\.1 s"):
        asyncio.run(group.hosts())
