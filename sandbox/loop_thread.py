"""Event loop in a daemon thread, through which blocking code uses asynchronous sandboxes."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, TypeVar

from .errors import NodeLost

LOOP_GRACE_S = 30.0
"""Time after the timeout of a call, and after every grace period of its parts, when the loop counts as hung."""
ENDED = (
    "the event loop of this process's sandboxes has ended: its provider was closed, or this process is a fork of the "
    "one that has the sandboxes"
)

T = TypeVar("T")


class LoopThread:
    """A running event loop, from construction to ``stop``."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self.loop = self._runner.get_loop()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="sandboxes", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Return whether the loop still runs."""
        return self._thread.is_alive() and not self._stopping

    def wait(self, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
        """Run ``work``, which must itself end within ``timeout_s``, and return its result or raise its error.

        Raises:
            NodeLost: the loop is hung, or it has ended.
        """
        if not self.alive:
            work.close()
            raise NodeLost(ENDED)
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result(timeout_s + LOOP_GRACE_S)
        except FutureTimeoutError:
            future.cancel()
            raise NodeLost(
                f"the event loop of this process's sandboxes did not answer within {timeout_s + LOOP_GRACE_S:g} s"
            ) from None
        except CancelledError:
            raise NodeLost(ENDED) from None
        except BaseException:
            # Of an interrupt: nothing would wait for the result, and a later call would wait for its end.
            future.cancel()
            raise

    def call_soon(self, work: Callable[[], object]) -> None:
        """Schedule a call without waiting for it; do nothing if the loop has stopped."""
        if self.alive:
            self.loop.call_soon_threadsafe(work)

    def stop(self, timeout_s: float) -> None:
        """Stop the loop, cancel the tasks left, and wait for the thread for at most ``timeout_s``."""
        if self.alive:
            self._stopping = True
            self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        self.loop.run_forever()
        self._runner.close()
