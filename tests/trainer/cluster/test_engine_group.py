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


class Broken(Faulty):
    """An engine's handle that raises an error of another kind when it is to load its weights."""

    @property
    def use_loaded_weights(self) -> Any:
        raise AttributeError("no such method")


def test_an_error_of_the_watch_ends_the_run_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "WATCH_INTERVAL_S", 0.001)

    async def scenario() -> TurnwiseError:
        group = EngineGroup([Broken("a")])
        group.version = 3
        group.watch()
        async with asyncio.timeout(5):
            while group.failure is None:
                await asyncio.sleep(0.001)
        return group.failure

    failure = asyncio.run(scenario())
    assert "engine 0 was restarted and could not load version 3: AttributeError: no such method" in str(failure)
