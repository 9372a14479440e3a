"""Sandboxes of one node: an async Ray actor that owns the node's pool.

There is one actor per node, not per sandbox, because an actor takes 40 MiB and a sandbox 8. When the actor dies, its
connections close and its sandboxes end; leases from it raise ``NodeLost``, and Ray restarts it with an empty pool.
Arguments and results are plain: a spec as JSON values, strings, bytes.
"""

import asyncio
import contextlib
from time import monotonic
from typing import Any
from uuid import uuid4

from ...logs import LogFolder
from ..backends.registry import make_backend
from ..errors import NodeLost, NoEngine
from ..pool.pool import Pool
from ..sandbox import Sandbox
from ..spec import SandboxSpec
from .node_socket import NodeSocket
from .settings import SandboxSettings

ENGINE_RETRY_INTERVAL_S = 10.0
"""Time for which the error of a missing engine is raised again, before the engine is tried again."""
CLAIM_TIMEOUT_S = 15.0
"""Time to the first use of a lease, after which it is released because its requester may have died."""


def actor_name(run: str, node: str) -> str:
    """Return the Ray name of the ``SandboxNode`` of a run on a node."""
    return f"turnwise-sandboxes-{run}-{node}"


class SandboxNode:
    """Node actor. Opens its pool at the first call."""

    def __init__(self, run: str, settings: dict[str, Any], logs: LogFolder | None = None) -> None:
        if logs is not None:
            logs.attach("sandboxes")
        self._run = run
        self._settings = SandboxSettings.model_validate(settings)
        self._pool: Pool | None = None
        self._socket: NodeSocket | None = None
        self._leases: dict[str, Sandbox] = {}
        """By lease id; the sandbox alone does not identify a lease, since it serves several in turn."""
        self._unclaimed: set[str] = set()
        self._opening = asyncio.Lock()
        self._refusal: NoEngine | None = None
        self._refused_at = 0.0

    async def lease(
        self, spec: dict[str, Any], timeout_s: float, max_duration_s: float | None, *, wait: bool
    ) -> tuple[str, str, str, str] | None:
        """Return lease id, sandbox id, image digest and path of the node socket (empty without a socket).

        Without ``wait``, return None if a lease would have to wait for the release of another.

        Raises:
            LeaseTimeout: no sandbox became free within ``timeout_s``.
            NoImage, NoEngine, NotTrusted, TooLarge: no sandbox of this spec can start on this node.
        """
        pool = await self._open_pool()
        wanted = SandboxSpec.model_validate(spec)
        if not wait and wanted.memory_mib <= pool.memory_mib and not pool.has_room(wanted):
            return None
        sandbox = await pool.lease(wanted, timeout_s=timeout_s, max_duration_s=max_duration_s)
        self._leases = {lease: held for lease, held in self._leases.items() if pool.is_leased(held)}
        lease = uuid4().hex
        self._leases[lease] = sandbox
        self._unclaimed.add(lease)
        asyncio.get_running_loop().call_later(CLAIM_TIMEOUT_S, self._end_unclaimed, lease)
        return lease, sandbox.id, sandbox.digest, str(self._socket.path) if self._socket else ""

    async def forward(
        self, lease: str, header: dict[str, Any], payload: bytes, timeout_s: float
    ) -> tuple[dict[str, Any], bytes]:
        """Send a request to the guest agent of a leased sandbox and return its answer.

        Raises:
            SandboxLost: the sandbox ended or did not answer.
            NodeLost: the lease does not exist.
        """
        return await self._claim(lease).connection.call(header, payload, timeout_s=timeout_s)

    async def release(self, lease: str) -> None:
        """End a lease; unknown ids are ignored."""
        self._end(lease)

    async def health(self) -> dict[str, Any]:
        """Return ``PoolHealth`` as JSON values. Raises NoEngine."""
        return (await self._open_pool()).health().json()

    async def close(self) -> None:
        """End every sandbox."""
        if self._socket is not None:
            self._socket.close()
        if self._pool is not None:
            await self._pool.close()

    async def _open_pool(self) -> Pool:
        async with self._opening:
            if self._refusal is not None and monotonic() - self._refused_at < ENGINE_RETRY_INTERVAL_S:
                raise self._refusal
            if self._pool is None:
                settings = self._settings
                allow = settings.allow_local_sandbox
                try:
                    # In a thread, because a frozen engine blocks until the timeout of its client.
                    backend = await asyncio.to_thread(
                        make_backend, settings.backend, self._run, allow_untrusted=allow, runtime=settings.runtime
                    )
                except NoEngine as error:
                    self._refusal, self._refused_at = error, monotonic()
                    raise
                self._pool = await Pool(
                    backend,
                    capacity=settings.max_per_node,
                    memory_mib=settings.memory_per_node_mib,
                    warm=settings.warm,
                ).open()
                # Without a socket, workers use calls of this actor.
                with contextlib.suppress(OSError):
                    self._socket = await NodeSocket(self._claim, self._end).open()
            return self._pool

    def _claim(self, lease: str) -> Sandbox:
        """Return the sandbox of a lease and mark the lease as used. Raises NodeLost."""
        self._unclaimed.discard(lease)
        sandbox = self._leases.get(lease)
        if sandbox is None or self._pool is None or not self._pool.is_leased(sandbox):
            raise NodeLost("the lease is over, or the node actor of the sandbox was restarted")
        return sandbox

    def _end(self, lease: str) -> None:
        self._unclaimed.discard(lease)
        sandbox = self._leases.pop(lease, None)
        if sandbox is not None and self._pool is not None:
            self._pool.release(sandbox)

    def _end_unclaimed(self, lease: str) -> None:
        if lease in self._unclaimed:
            self._end(lease)
