"""The HTTP client of the judge: one event loop in a daemon thread, shared by every group that is scored at once."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from ....errors import TurnwiseError

T = TypeVar("T")


class JudgeClient:
    """An HTTP client and a bound on its concurrent requests, usable from any thread."""

    def __init__(self, max_requests: int, headers: dict[str, str], timeout_s: float) -> None:
        """Start the thread.

        Raises:
            TurnwiseError: ``httpx`` is not installed.
        """
        try:
            import httpx
        except ImportError as error:
            raise TurnwiseError("the judge needs httpx, which is not installed: run `pip install httpx`") from error
        self.errors = (httpx.HTTPError,)
        limits = httpx.Limits(max_connections=max_requests, max_keepalive_connections=max_requests)
        self.http = httpx.AsyncClient(timeout=timeout_s, headers=headers, limits=limits)
        self.slots = asyncio.Semaphore(max_requests)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="judge", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` on the loop and return its result; callable from any thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        """Close the connections and end the thread; no request may be in flight."""
        self.run(self.http.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
