"""Fixtures for tests with real engines: one event loop per session."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

WORDS = [f"w{i}" for i in range(120)]


@pytest.fixture(scope="session")
def loop() -> Iterator[asyncio.Runner]:
    """Yield the event loop that all tests share."""
    with asyncio.Runner() as runner:
        yield runner


Run = Callable[[Awaitable[Any]], Any]


@pytest.fixture(scope="session")
def run(loop: asyncio.Runner) -> Run:
    """Return a function that awaits with a timeout of 180 s: an engine starts slowly on a busy machine."""

    async def bounded(awaitable: Awaitable[Any]) -> Any:
        async with asyncio.timeout(180):
            return await awaitable

    return lambda awaitable: loop.run(bounded(awaitable))
