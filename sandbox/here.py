"""Sandboxes of a pool in this process, for what runs without Ray: ``envs play`` and ``check``, evaluation, tests.

The pool lives in an event loop of its own, in a daemon thread that starts with the first lease. The backend is Docker
where an engine answers, else the local one; ``TURNWISE_SANDBOX_BACKEND`` names another choice.
"""

import asyncio
import atexit
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import TimeoutError as Late
from typing import Any, TypeVar

from .backend import backend
from .errors import SandboxLost
from .leased import Leased
from .pool import Pool
from .spec import SandboxSpec

SLACK = 15.0
"""Seconds beyond an operation's own deadline after which the loop itself must have stopped."""
CLOSE_SECONDS = 10.0

T = TypeVar("T")


class Here:
    """A source of leases in this process."""

    def __init__(
        self, name: str | None = None, *, capacity: int = 16, warm: int = 1, allow_untrusted: bool = False
    ) -> None:
        """``name`` is the backend's. Raises NoEngine."""
        chosen = name or os.environ.get("TURNWISE_SANDBOX_BACKEND", "auto")
        self._loop = asyncio.new_event_loop()
        self.pool = Pool(backend(chosen, "here", allow_untrusted=allow_untrusted), capacity=capacity, warm=warm)
        self._thread = threading.Thread(target=self._loop.run_forever, name="sandboxes", daemon=True)
        self._thread.start()
        self._wait(self.pool.open(), CLOSE_SECONDS)
        atexit.register(self.close)

    def lease(self, spec: SandboxSpec, *, deadline: float, holds: float | None = None) -> Leased:
        """See ``leased.Source``."""
        box = self._wait(self.pool.lease(spec, deadline=deadline, holds=holds), deadline)

        def ask(what: str, arguments: dict[str, Any], seconds: float) -> Any:
            return self._wait(getattr(box, what)(deadline=seconds, **arguments), seconds)

        def back() -> None:
            if self._thread.is_alive():
                self._loop.call_soon_threadsafe(self.pool.give_back, box)

        return Leased(box.id, spec, box.digest, ask, back)

    def close(self) -> None:
        """End every sandbox and the loop."""
        atexit.unregister(self.close)
        if self._thread.is_alive():
            self._wait(self.pool.close(), CLOSE_SECONDS)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(CLOSE_SECONDS)
            self._loop.close()

    def _wait(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(seconds + SLACK)
        except Late:
            future.cancel()
            raise SandboxLost(f"the sandboxes of this process did not answer for {seconds + SLACK:g} s") from None
