"""Run coroutines from the thread of an environment, in one event loop per process.

A client of a model, which a module of reward functions makes once, keeps its connections in the loop that opened them.
So all environments of a process use one loop, in a daemon thread that ends with the process.
"""

import asyncio
import os
import threading
from collections.abc import Awaitable, Sequence
from typing import Any

from ..errors import EnvTimeout

_starting = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}
"""The loop of this process, by its id: a fork has no thread that runs the loop of its parent."""


def results_of(work: Sequence[Awaitable[Any]], timeout_s: float | None, name: str) -> list[Any]:
    """Await all of ``work`` at once; return the result of each, or its exception. ``name`` names it in errors.

    Raises:
        EnvTimeout: it did not end within ``timeout_s``; it is cancelled.
    """

    async def all_of() -> list[Any]:
        async with asyncio.timeout(timeout_s):
            return await asyncio.gather(*work, return_exceptions=True)

    try:
        return asyncio.run_coroutine_threadsafe(all_of(), _loop()).result()
    except TimeoutError:
        raise EnvTimeout(f"{name} did not return before the timeout of the step") from None


def _loop() -> asyncio.AbstractEventLoop:
    with _starting:
        if os.getpid() not in _loops:
            loop = _loops[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="coroutines of environments", daemon=True).start()
        return _loops[os.getpid()]
