"""Run coroutines from the thread of an environment, in one event loop per process.

A client of a model, which a module of reward functions makes once, keeps its connections in the loop that opened them.
So all environments of a process use one loop, in a daemon thread that ends with the process. A coroutine that blocks
the loop beyond its timeout costs the process this loop: the next call starts another one.

Each coroutine has the timeout for itself. The time of a coroutine that has limits of its own, or waits for its turn,
does not count (``unlimited``).
"""

import asyncio
import os
import threading
from collections.abc import Awaitable, Iterator, Sequence
from concurrent.futures import wait
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import Any

from ..errors import EnvTimeout

GRACE_S = 1.0
"""Time in which a loop must answer, and between two looks at the timeouts, which may move."""

_submitting = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}
"""The loop of this process, by its id: a fork has no thread that runs the loop of its parent."""


@dataclass(slots=True)
class _Clock:
    """The timeout of one coroutine."""

    due: float = inf
    """When it expires, on the monotonic clock; infinity while it does not count."""
    left_s: float = 0.0
    holds: int = 0


_clock: ContextVar[_Clock | None] = ContextVar("_clock", default=None)


@contextmanager
def unlimited() -> Iterator[None]:
    """Let no time inside count against the timeout of the coroutine that runs: its waits inside have their own."""
    clock = _clock.get() or _Clock()
    clock.holds += 1
    if clock.holds == 1:
        clock.left_s, clock.due = clock.due - monotonic(), inf
    try:
        yield
    finally:
        clock.holds -= 1
        if not clock.holds:
            clock.due = monotonic() + clock.left_s


def results_of(
    work: Sequence[Awaitable[Any]], timeout_s: float, name: str, error: type[EnvTimeout] = EnvTimeout
) -> list[Any]:
    """Await all of ``work`` at once; return the result of each, or its exception. ``name`` names it in errors.

    Raises:
        EnvTimeout: one did not end within ``timeout_s``, and all are cancelled; it is of the type ``error``.
    """
    clocks = [_Clock(monotonic() + timeout_s + GRACE_S) for _ in work]  # a blocked loop starts none of them

    async def run(clock: _Clock, one: Awaitable[Any]) -> Any:
        _clock.set(clock)
        clock.due = monotonic() + timeout_s
        results = await asyncio.gather(one, return_exceptions=True)
        clock.due = inf
        return results[0]

    async def all_of() -> list[Any]:
        return await asyncio.gather(*map(run, clocks, work))

    with _submitting:
        loop = _loop()
        future = asyncio.run_coroutine_threadsafe(all_of(), loop)
    while not future.done():
        due = min(clock.due for clock in clocks)
        if monotonic() >= due or (_loops.get(os.getpid()) is not loop and not _answers(loop)):
            break
        wait([future], min(GRACE_S, due - monotonic()))
    else:
        return future.result()
    future.cancel()
    late = f"{name} did not return before its timeout"
    if not _answers(loop):
        _drop(loop)
        late += ": it or another asynchronous function blocks their event loop; `await` what takes long"
    raise error(late)


def _answers(loop: asyncio.AbstractEventLoop) -> bool:
    """Return whether a loop that another coroutine blocked runs again."""
    answered = threading.Event()
    with suppress(RuntimeError):  # it is closed
        loop.call_soon_threadsafe(answered.set)
    return answered.wait(GRACE_S)


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
