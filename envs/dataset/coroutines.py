"""Run coroutines from the thread of an environment, in one event loop per process.

A client of a model, which a module of reward functions makes once, keeps its connections in the loop that opened them.
So all environments of a process use one loop, in a daemon thread that ends with the process. A coroutine that blocks
the loop beyond its timeout costs the process this loop: the next call starts another one.
"""

import asyncio
import os
import threading
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import Any

from ..errors import EnvTimeout

GRACE_S = 1.0
"""Time from the timeout on in which a coroutine must end after its cancellation."""

_submitting = threading.Lock()
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

    with _submitting:
        loop = _loop()
        future = asyncio.run_coroutine_threadsafe(all_of(), loop)
    try:
        return future.result(None if timeout_s is None else timeout_s + GRACE_S)
    except TimeoutError:
        late = f"{name} did not return before the timeout of the step"
        if not future.done():
            _drop(loop)
            late += (
                ", nor when it was cancelled: it or another asynchronous function blocks their event loop; `await` "
                "what takes long"
            )
        raise EnvTimeout(late) from None


def _loop() -> asyncio.AbstractEventLoop:
    if os.getpid() not in _loops:
        loop = _loops[os.getpid()] = asyncio.new_event_loop()
        threading.Thread(target=_run, args=(loop,), name="coroutines of environments", daemon=True).start()
    return _loops[os.getpid()]


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is dropped. A coroutine that raises SystemExit stops it, but ends no other coroutine."""
    while _loops.get(os.getpid()) is loop:
        with suppress(SystemExit, KeyboardInterrupt):
            loop.run_forever()
    loop.close()


def _drop(loop: asyncio.AbstractEventLoop) -> None:
    """Let the next call start a new loop, and end this one after its coroutines."""

    async def stop() -> None:
        if others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others)
        loop.stop()

    with _submitting:
        if _loops.get(os.getpid()) is loop:
            del _loops[os.getpid()]
            asyncio.run_coroutine_threadsafe(stop(), loop)
