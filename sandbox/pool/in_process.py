"""Sandboxes of a pool in this process, for what runs without Ray: ``envs play`` and ``check``, evaluation, tests.

The pool lives in an event loop of its own, in a daemon thread that starts with the first lease. The backend is Docker
where an engine answers, else the local one; ``TURNWISE_SANDBOX_BACKEND`` names another choice.
"""

import atexit
import os

from ..backends.registry import backend
from ..lease import SandboxLease
from ..spec import SandboxSpec
from .loop_thread import LoopThread
from .pool import Pool

CLOSE_SECONDS = 10.0


class InProcessPool:
    """A source of leases in this process."""

    def __init__(
        self, name: str | None = None, *, capacity: int = 16, warm: int = 1, allow_untrusted: bool = False
    ) -> None:
        """``name`` is the backend's. Raises NoEngine."""
        chosen = name or os.environ.get("TURNWISE_SANDBOX_BACKEND", "auto")
        self._thread = LoopThread()
        try:
            self.pool = Pool(backend(chosen, "here", allow_untrusted=allow_untrusted), capacity=capacity, warm=warm)
        except BaseException:
            self._thread.stop(CLOSE_SECONDS)
            raise
        self._thread.wait(self.pool.open(), CLOSE_SECONDS)
        atexit.register(self.close)

    def lease(self, spec: SandboxSpec, *, timeout_s: float, max_duration_s: float | None = None) -> SandboxLease:
        """See ``leased.Source``."""
        box = self._thread.wait(self.pool.lease(spec, timeout_s=timeout_s, max_duration_s=max_duration_s), timeout_s)
        return SandboxLease(box, self._thread, lambda: self.pool.release(box))

    def close(self) -> None:
        """End every sandbox and the loop."""
        atexit.unregister(self.close)
        if self._thread.alive:
            self._thread.wait(self.pool.close(), CLOSE_SECONDS)
            self._thread.stop(CLOSE_SECONDS)
