"""Run a coroutine to its end, also where an event loop already runs, as in a notebook."""

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from contextvars import copy_context
from typing import Any, TypeVar

T = TypeVar("T")
POLL_INTERVAL_S = 0.2
"""Seconds after which a waiting caller handles a signal that another thread received."""


def run(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of ``work``, as ``asyncio.run``; where an event loop runs in this thread, in another thread.

    The caller waits, and handles signals meanwhile. An exception of a handler, such as ``KeyboardInterrupt``, cancels
    ``work`` and is raised when it has ended.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    results: list[T] = []
    errors: list[BaseException] = []
    loop: asyncio.AbstractEventLoop | None = None
    task: asyncio.Task[T] | None = None
    interrupted, ended = False, threading.Event()

    async def main() -> T:
        nonlocal loop, task
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
        if interrupted:
            task.cancel()
        return await task

    def end() -> None:
        try:
            results.append(asyncio.run(main()))
        except BaseException as error:  # noqa: BLE001 - raised by the caller
            errors.append(error)
        finally:
            ended.set()

    thread = threading.Thread(target=copy_context().run, args=(end,), name="event loop")
    thread.start()
    try:
        # Not `join`: Python before 3.13 takes a thread for ended if an exception leaves its `join`.
        while not ended.wait(POLL_INTERVAL_S):
            pass
    except BaseException:
        interrupted = True
        if loop is not None and task is not None:
            with suppress(RuntimeError):  # the event loop has just closed
                loop.call_soon_threadsafe(task.cancel)
        ended.wait()
        raise
    if errors:
        raise errors[0]
    return results[0]
