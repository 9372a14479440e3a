"""An event loop in a daemon thread, for code that blocks and wants what is asynchronous done."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import TimeoutError as Late
from typing import Any, TypeVar

from ..errors import NodeLost

SLACK = 30.0
"""Seconds beyond the work's own deadline, and all that its parts may take longer, after which the loop must hang."""

T = TypeVar("T")


class LoopThread:
    """Runs from the start to ``stop``."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="sandboxes", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether anything can still be done."""
        return self._thread.is_alive()

    def wait(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        """The outcome of ``work``, which has a deadline of ``seconds`` of its own.

        Raises:
            NodeLost: the loop does not answer.
        """
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result(seconds + SLACK)
        except Late:
            future.cancel()
            raise NodeLost(f"the sandboxes of this process did not answer for {seconds + SLACK:g} s") from None

    def soon(self, work: Callable[[], object]) -> None:
        """Have something done, without waiting; nothing once it has stopped."""
        if self.alive:
            self.loop.call_soon_threadsafe(work)

    def stop(self, seconds: float) -> None:
        """End the loop."""
        if self.alive:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(seconds)
            self.loop.close()
