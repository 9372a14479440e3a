"""Source of this process's leases.

A process has one provider at a time. A rollout worker sets a ``cluster.client.ClusterProvider`` at its start, or one
that refuses leases. The commands set an ``InProcessProvider`` with the settings that the user chose. Any other process
gets one with default settings at its first lease, and a warning unless ``TURNWISE_SANDBOX_BACKEND`` is set.
"""

import atexit
import logging
import os
import threading
from collections.abc import Callable
from typing import Any, Protocol

from .backends.registry import make_backend
from .lease import SandboxLease
from .loop_thread import LoopThread
from .pool import Pool
from .spec import SandboxSpec

LOG = logging.getLogger(__name__)

POOL_TIMEOUT_S = 10.0
"""Timeout of opening, and of closing, the pool of this process."""
BACKEND_VARIABLE = "TURNWISE_SANDBOX_BACKEND"


class LeaseProvider(Protocol):
    """A source of leases."""

    def lease(self, spec: SandboxSpec, *, timeout_s: float, max_duration_s: float | None = None) -> SandboxLease:
        """Return the lease of a clean sandbox, which ends after ``max_duration_s`` at the latest.

        Raises:
            LeaseTimeout: no sandbox became free within ``timeout_s``.
            NoImage, NoEngine, NotTrusted, TooLarge: no sandbox of this spec can ever start here.
        """


class InProcessProvider:
    """Leases from a pool in this process, for use without Ray: ``envs play`` and ``check``, evaluation, tests.

    The pool lives in an event loop in a daemon thread. By default, the backend is Docker if an engine answers and else
    bubblewrap; the environment variable ``TURNWISE_SANDBOX_BACKEND`` names another choice.
    """

    def __init__(
        self,
        backend: str | None = None,
        *,
        capacity: int = 16,
        memory_mib: int | None = None,
        warm: int = 1,
        allow_untrusted: bool = False,
        options: dict[str, Any] | None = None,
    ) -> None:
        """Open the pool. Raises NoEngine."""
        chosen = backend or os.environ.get(BACKEND_VARIABLE, "auto")
        self._thread = LoopThread()
        try:
            made = make_backend(chosen, "here", allow_untrusted=allow_untrusted, options=options)
            self.pool = Pool(made, capacity=capacity, memory_mib=memory_mib, warm=warm)
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


def _open_default() -> LeaseProvider:
    provider = InProcessProvider()
    if BACKEND_VARIABLE not in os.environ:
        LOG.warning(
            "this process has not chosen its sandboxes and uses at most %d of the backend `%s`; set `%s`, or call "
            "`turnwise.sandbox.set_provider`, to choose",
            provider.pool.capacity,
            provider.pool.backend.name,
            BACKEND_VARIABLE,
        )
    return provider


_provider: LeaseProvider | None = None
_open: Callable[[], LeaseProvider] = _open_default
_provider_lock = threading.Lock()


def set_provider(provider: LeaseProvider | None) -> None:
    """Set the source of this process's leases; None: an ``InProcessProvider``, opened at the next lease."""
    global _provider, _open
    with _provider_lock:
        _provider, _open = provider, _open_default


def open_at_first_lease(make: Callable[[], LeaseProvider]) -> None:
    """Set the function that makes the source of this process's leases; the next lease calls it."""
    global _provider, _open
    with _provider_lock:
        _provider, _open = None, make


def lease(spec: SandboxSpec, *, timeout_s: float, max_duration_s: float | None = None) -> SandboxLease:
    """Return a lease from this process's provider, as ``LeaseProvider.lease`` does."""
    global _provider
    with _provider_lock:
        if _provider is None:
            _provider = _open()
        provider = _provider
    return provider.lease(spec, timeout_s=timeout_s, max_duration_s=max_duration_s)
