"""Source of this process's leases.

A process has one provider at a time. Each rollout worker sets a ``cluster.client.ClusterProvider`` at its start. Every
other process gets an ``InProcessProvider`` at its first lease.
"""

import atexit
import os
import threading
from typing import Protocol

from .backends.registry import make_backend
from .lease import SandboxLease
from .loop_thread import LoopThread
from .pool.pool import Pool
from .spec import SandboxSpec

POOL_TIMEOUT_S = 10.0
"""Timeout of opening, and of closing, the pool of this process."""


class LeaseProvider(Protocol):
    """A source of leases."""

    def lease(self, spec: SandboxSpec, *, timeout_s: float, max_duration_s: float | None = None) -> SandboxLease:
        """Return the lease of a clean sandbox, which ends after ``max_duration_s`` at the latest.

        Raises:
            LeaseTimeout: no sandbox became free within ``timeout_s``.
            NoImage, NoEngine, NotTrusted: no sandbox of this spec can ever start here.
        """
        ...


class InProcessProvider:
    """Leases from a pool in this process, for use without Ray: ``envs play`` and ``check``, evaluation, tests.

    The pool lives in an event loop in a daemon thread. By default, the backend is Docker if an engine answers and else
    bubblewrap; the environment variable ``TURNWISE_SANDBOX_BACKEND`` names another choice.
    """

    def __init__(
        self, backend: str | None = None, *, capacity: int = 16, warm: int = 1, allow_untrusted: bool = False
    ) -> None:
        """Open the pool. Raises NoEngine."""
        chosen = backend or os.environ.get("TURNWISE_SANDBOX_BACKEND", "auto")
        self._thread = LoopThread()
        try:
            made = make_backend(chosen, "here", allow_untrusted=allow_untrusted)
            self.pool = Pool(made, capacity=capacity, warm=warm)
        except BaseException:
            self._thread.stop(POOL_TIMEOUT_S)
            raise
        self._thread.wait(self.pool.open(), POOL_TIMEOUT_S)
        atexit.register(self.close)

    def lease(self, spec: SandboxSpec, *, timeout_s: float, max_duration_s: float | None = None) -> SandboxLease:
        """Return a lease as ``LeaseProvider.lease`` does."""
        work = self.pool.lease(spec, timeout_s=timeout_s, max_duration_s=max_duration_s)
        sandbox = self._thread.wait(work, timeout_s)
        return SandboxLease(sandbox, self._thread, lambda: self.pool.release(sandbox))

    def close(self) -> None:
        """End every sandbox of the pool and stop its event loop."""
        atexit.unregister(self.close)
        if self._thread.alive:
            self._thread.wait(self.pool.close(), POOL_TIMEOUT_S)
            self._thread.stop(POOL_TIMEOUT_S)


_provider: LeaseProvider | None = None
_provider_lock = threading.Lock()


def set_provider(provider: LeaseProvider | None) -> None:
    """Set the source of this process's leases; None: an ``InProcessProvider``, opened at the next lease."""
    global _provider
    with _provider_lock:
        _provider = provider


def lease(spec: SandboxSpec, *, timeout_s: float, max_duration_s: float | None = None) -> SandboxLease:
    """Return a lease from this process's provider, as ``LeaseProvider.lease`` does."""
    global _provider
    with _provider_lock:
        if _provider is None:
            _provider = InProcessProvider()
        provider = _provider
    return provider.lease(spec, timeout_s=timeout_s, max_duration_s=max_duration_s)
