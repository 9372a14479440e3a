"""The client's choice of an engine, and the part that it charges with a late answer."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from turnwise.agents.engine import client as client_module
from turnwise.agents.engine.client import PolicyClient
from turnwise.agents.engine.request import Sampling
from turnwise.agents.errors import EngineFailed, PolicyFailed

ENGINES, CLIENTS = 8, 64


class Counting:
    """The handle of an engine that counts requests and answers none."""

    def __init__(self) -> None:
        self.submit = self.poll = self
        self.requests = 0

    def options(self, **_: Any) -> "Counting":
        return self

    def remote(self, client: str, *arguments: Any) -> asyncio.Future[Any]:
        self.requests += len(arguments[0]) if len(arguments) > 1 else 0
        return asyncio.get_running_loop().create_future()


def test_clients_with_one_session_each_use_different_engines() -> None:
    engines = [Counting() for _ in range(ENGINES)]

    async def scenario() -> None:
        clients = [PolicyClient(engines, Sampling(stop=())) for _ in range(CLIENTS)]
        playing = [asyncio.create_task(one.generate("s", [1], 1, 60)) for one in clients]
        async with asyncio.timeout(5):
            while sum(one.requests for one in engines) < CLIENTS:
                await asyncio.sleep(0.01)
        for task in playing:
            task.cancel()
        await asyncio.gather(*playing, return_exceptions=True)
        await asyncio.gather(*(one.close() for one in clients))

    asyncio.run(scenario())
    assert sum(one.requests > 0 for one in engines) > ENGINES / 2


class Responding:
    """The handle of an engine that completes no answer, and responds to the first ``responses`` polls."""

    def __init__(self, version: int | None = 3, responses: int = 1_000_000) -> None:
        self.submit = self
        self.poll = self
        self.version = version
        self.responses = responses

    def options(self, **_: Any) -> "Responding":
        return self

    def remote(self, client: str, *arguments: Any) -> Any:
        if len(arguments) == 1:
            return self.respond(*arguments)
        return None

    async def respond(self, timeout_s: float) -> tuple[str, int | None, list[Any]]:
        self.responses -= 1
        if self.responses < 0:
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(timeout_s)
        return "incarnation", self.version, []


@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize(
    ("engine", "blamed", "state"),
    [
        (Responding, PolicyFailed, "serves version 3"),
        (partial(Responding, version=None), EngineFailed, "has no weights yet"),
        (partial(Responding, responses=2), EngineFailed, "serves version 3"),
        (Counting, EngineFailed, "has not answered yet"),
    ],
)
def test_a_late_answer_is_the_policys_if_the_engine_responds(
    engine: Callable[[], Any], blamed: type[Exception], state: str, cancelled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "POLL_TIMEOUT_S", 0.02)
    monkeypatch.setattr(client_module, "MAX_SILENCE_S", 0.2)

    async def scenario() -> BaseException | None:
        client = PolicyClient([engine()], Sampling(stop=()))
        playing = asyncio.create_task(client.generate("s", [1], 1, 60.0 if cancelled else 0.5))
        if cancelled:
            await asyncio.sleep(0.5)
            playing.cancel()
        await asyncio.wait([playing])
        await client.close()
        if not cancelled:
            return playing.exception()
        try:
            await playing
        except asyncio.CancelledError as error:
            return error.__cause__
        return None

    error = asyncio.run(scenario())
    if cancelled and blamed is PolicyFailed:
        assert error is None
    else:
        assert type(error) is blamed
        assert state in str(error)
