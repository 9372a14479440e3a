"""The client's choice of an engine."""

import asyncio
from typing import Any

from turnwise.agents.engine.client import PolicyClient

ENGINES, CLIENTS = 8, 64


class Counting:
    """The handle of an engine that counts requests and answers none."""

    def __init__(self) -> None:
        self.submit = self.poll = self
        self.requests = 0

    def options(self, **_: Any) -> "Counting":
        return self

    def remote(self, client: str, *arguments: Any) -> asyncio.Future[Any]:
        self.requests += len(arguments[1]) if len(arguments) > 1 else 0
        return asyncio.get_running_loop().create_future()


def test_clients_with_one_session_each_use_different_engines() -> None:
    engines = [Counting() for _ in range(ENGINES)]

    async def scenario() -> None:
        clients = [PolicyClient(engines) for _ in range(CLIENTS)]
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
