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
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from math import inf
from time import monotonic
from typing import Any

from ..errors import EnvTimeout

GRACE_S = 1.0
"""Time from the timeout on in which a coroutine must end after its cancellation, and in which a loop must answer."""

_submitting = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}
"""The loop of this process, by its id: a fork has no thread that runs the loop of its parent."""


class _Clock:
    """The timeout of one coroutine."""

    def __init__(self, timeout_s: float) -> None:
        self.due = monotonic() + timeout_s
        """When it expires, on the monotonic clock; infinity while it does not count."""
        self.timer: asyncio.Timeout | None = None
        self.holds = 0
        self.left_s = timeout_s

    def move(self, due: float) -> None:
        """Let the timeout expire at another time; called in the coroutine."""
        self.due = due
        if self.timer is not None and not self.timer.expired():
            self.timer.reschedule(None if due == inf else asyncio.get_running_loop().time() + due - monotonic())

    async def run(self, work: Awaitable[Any]) -> Any:
        """Return the result of ``work``, or its exception. Raises EnvTimeout: the timeout expired."""
        _clock.set(self)
        try:
            async with asyncio.timeout(None) as self.timer:
                self.move(self.due)
                return await asyncio.gather(work, return_exceptions=True)
        except TimeoutError:
            raise _Late from None


class _Late(Exception):
    """A coroutine did not end before its timeout."""


_clock: ContextVar[_Clock | None] = ContextVar("_clock", default=None)


@contextmanager
def unlimited() -> Iterator[None]:
    """Let no time inside count against the timeout of the coroutine that runs: its waits inside have their own."""
    clock = _clock.get() or _Clock(inf)
    clock.holds += 1
    if clock.holds == 1:
        clock.left_s = clock.due - monotonic()
        clock.move(inf)
    try:
        yield
    finally:
        clock.holds -= 1
        if not clock.holds:
            clock.move(monotonic() + clock.left_s)


def results_of(
    work: Sequence[Awaitable[Any]], timeout_s: float, name: str, error: type[EnvTimeout] = EnvTimeout
) -> list[Any]:
    """Await all of ``work`` at once; return the result of each, or its exception. ``name`` names it in errors.

    Raises:
        EnvTimeout: one did not end within ``timeout_s``, and all are cancelled; it is of the type ``error``.
    """
    clocks = [_Clock(timeout_s) for _ in work]

    async def all_of() -> list[Any]:
        tasks = [asyncio.ensure_future(clock.run(one)) for clock, one in zip(clocks, work, strict=True)]
        try:
            return [one for (one,) in await asyncio.gather(*tasks)]
        finally:
            for task in tasks:
                task.cancel()

    with _submitting:
        loop = _loop()
        future = asyncio.run_coroutine_threadsafe(all_of(), loop)
    while True:
        with suppress(TimeoutError, _Late):
            return future.result(GRACE_S)
        is_late = monotonic() >= min(clock.due for clock in clocks) + GRACE_S
        if future.done() or is_late or (_loops.get(os.getpid()) is not loop and not _answers(loop)):
            break
    late = f"{name} did not return before its timeout"
    if not future.done():
        _drop(loop)
        late += (
            ", nor when it was cancelled: it or another asynchronous function blocks their event loop; `await` "
            "what takes long"
        )
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
