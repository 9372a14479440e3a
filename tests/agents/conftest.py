"""Fixtures for tests with real engines: one Ray and one event loop per session."""

import asyncio
import warnings
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from turnwise.trainer.cluster.ray_patches import shut_ray_down, start_fewer_processes

WORDS = [f"w{i}" for i in range(120)]


@pytest.fixture(scope="session")
def ray() -> Iterator[Any]:
    """Start Ray in this process, once per session."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import os

        os.environ.setdefault("RAY_worker_niceness", "0")
        import ray as module

        started = not module.is_initialized()
        if started:
            start_fewer_processes()
            module.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield module
    if started:
        shut_ray_down()


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
