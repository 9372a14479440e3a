"""Real engines for the tests of this floor: Ray once, an engine for each model once a module."""

import asyncio
import warnings
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

WORDS = [f"w{i}" for i in range(120)]


@pytest.fixture(scope="session")
def ray() -> Iterator[Any]:
    """An in-process Ray, for the whole test session."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import os

        os.environ.setdefault("RAY_worker_niceness", "0")
        import ray as module

        started = not module.is_initialized()
        if started:
            module.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield module
    if started:
        module.shutdown()


@pytest.fixture(scope="session")
def loop() -> Iterator[asyncio.Runner]:
    """One event loop for everything asynchronous."""
    with asyncio.Runner() as runner:
        yield runner


Run = Callable[[Awaitable[Any]], Any]


@pytest.fixture(scope="session")
def run(loop: asyncio.Runner) -> Run:
    """Run an awaitable to its end, within three minutes: an engine starts slowly where much else runs."""

    async def bounded(awaitable: Awaitable[Any]) -> Any:
        async with asyncio.timeout(180):
            return await awaitable

    return lambda awaitable: loop.run(bounded(awaitable))
