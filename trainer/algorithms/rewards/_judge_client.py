"""The client of the judge: one event loop in a daemon thread, shared by every group that is scored at once."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from ....agents.players.chat_api.client import ChatApi

T = TypeVar("T")


class JudgeClient:
    """A server and a bound on its concurrent requests, usable from any thread."""

    def __init__(self, url: str, max_requests: int, api_key_env: str, timeout_s: float) -> None:
        """Start the thread.

        Raises:
            TurnwiseError: the server cannot be used; see ``ChatApi``.
        """
        self.api = ChatApi(url, "`url` of the judge", timeout_s, api_key_env, max_requests)
        self.slots = asyncio.Semaphore(max_requests)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="judge", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` on the loop and return its result; callable from any thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        """Close the connections and end the thread; no request may be in flight."""
        self.run(self.api.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
