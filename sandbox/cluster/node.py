"""Sandboxes of one node: an async Ray actor that owns the node's pool.

There is one actor per node, not per sandbox, because an actor takes 40 MiB and a sandbox 8. When the actor dies, its
connections close and its sandboxes end; leases from it raise ``NodeLost``, and Ray restarts it with an empty pool.
Workers request leases from its ``LeaseServer``, so that a lease needs no call of the actor.
"""

import asyncio
from time import monotonic
from typing import Any

from ...logs import LogFolder
from ..backends.registry import make_backend
from ..errors import NoEngine
from ..pool.pool import Pool
from .lease_server import LeaseServer, NodeEndpoint
from .settings import SandboxSettings

ENGINE_RETRY_INTERVAL_S = 10.0
"""Time for which the error of a missing engine is raised again, before the engine is tried again."""


def actor_name(run: str, node: str) -> str:
    """Return the Ray name of the ``SandboxNode`` of a run on a node."""
    return f"turnwise-sandboxes-{run}-{node}"


class SandboxNode:
    """Node actor. Opens its pool at the first call."""

    def __init__(
        self, run: str, settings: dict[str, Any], logs: LogFolder | None = None, address: str = "127.0.0.1"
    ) -> None:
        """``address`` is the one of this node that other nodes reach."""
        if logs is not None:
            logs.attach("sandboxes")
        self._run = run
        self._address = address
        self._settings = SandboxSettings.model_validate(settings)
        self._opened: tuple[Pool, LeaseServer] | None = None
        self._opening = asyncio.Lock()
        self._refusal: NoEngine | None = None
        self._refused_at = 0.0

    async def endpoint(self, *, tcp: bool) -> NodeEndpoint:
        """Return the address for leases; with ``tcp``, one that other nodes reach. Raises NoEngine, OSError."""
        return await (await self._open())[1].endpoint(tcp=tcp)

    async def health(self) -> dict[str, Any]:
        """Return ``PoolHealth`` as JSON values. Raises NoEngine."""
        return (await self._open())[0].health().json()

    async def close(self) -> None:
        """End every sandbox."""
        if self._opened is not None:
            pool, server = self._opened
            server.close()
            await pool.close()

    async def _open(self) -> tuple[Pool, LeaseServer]:
        async with self._opening:
            if self._refusal is not None and monotonic() - self._refused_at < ENGINE_RETRY_INTERVAL_S:
                raise self._refusal
            if self._opened is None:
                settings = self._settings
                allow = settings.allow_local_sandbox
                try:
                    # In a thread, because a frozen engine blocks until the timeout of its client.
                    backend = await asyncio.to_thread(
                        make_backend, settings.backend, self._run, allow_untrusted=allow, options=settings.options
                    )
                except NoEngine as error:
                    self._refusal, self._refused_at = error, monotonic()
                    raise
                pool = await Pool(
                    backend,
                    capacity=settings.max_per_node,
                    memory_mib=settings.memory_per_node_mib,
                    warm=settings.warm,
                ).open()
                self._opened = pool, await LeaseServer(pool, self._address).open()
            return self._opened
