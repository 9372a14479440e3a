"""The sandboxes of one node: an async Ray actor that owns the node's pool.

One actor a node, never one a sandbox: an actor costs 40 MiB, a sandbox 8. When it dies, its sandboxes hang up and end
by themselves; what was leased from it raises ``NodeLost``, and Ray starts it again with an empty pool. Everything that
crosses is plain: a spec as JSON values, names, bytes.
"""

import asyncio
import contextlib
from time import monotonic
from typing import Any
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field

from ..backends.registry import backend
from ..errors import NodeLost, NoEngine
from ..pool.pool import Pool
from ..sandbox import Box
from ..spec import SandboxSpec
from .node_socket import CLAIM_SECONDS, NodeSocket

ASK_AGAIN = 10.0
"""Seconds until a node without an engine is asked again."""


class SandboxSettings(BaseModel):
    """How the sandboxes of every node are held."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    backend: str = Field("auto", pattern="^(auto|docker|local)$")
    """``docker``, ``local`` (bubblewrap), or ``auto``: Docker where an engine answers, else local."""
    per_node: int = Field(32, ge=1)
    """Sandboxes a node may hold at once."""
    warm: int = Field(2, ge=0)
    """Kept ready beyond those that are leased, as far as ``per_node`` goes."""
    allow_local_sandbox: bool = False
    """Let the local backend hold tasks that are not declared trusted."""
    runtime: str | None = None
    """Another OCI runtime of Docker, such as ``runsc``."""


class SandboxNode:
    """See the module. Nothing is started before the first call."""

    def __init__(self, run: str, settings: dict[str, Any]) -> None:
        self._run = run
        self._settings = SandboxSettings.model_validate(settings)
        self._pool: Pool | None = None
        self._gate: NodeSocket | None = None
        self._leases: dict[str, Box] = {}
        """By a name that no two leases share, whatever box they got."""
        self._unclaimed: set[str] = set()
        self._opening = asyncio.Lock()
        self._refusal: NoEngine | None = None
        self._refused = 0.0

    async def lease(
        self, spec: dict[str, Any], timeout_s: float, max_duration_s: float | None, *, patient: bool
    ) -> tuple[str, str, str, str] | None:
        """The lease, the id and image digest of its sandbox, and the path of this node's gate. Impatient: None at once
        where neither a sandbox nor room for one is to be had. Raises as ``Pool.lease``.
        """
        pool = await self._opened()
        if not patient and not pool.has_room():
            return None
        box = await pool.lease(SandboxSpec.model_validate(spec), timeout_s=timeout_s, max_duration_s=max_duration_s)
        self._leases = {name: held for name, held in self._leases.items() if pool.max_duration_s(held)}
        lease = uuid4().hex
        self._leases[lease] = box
        self._unclaimed.add(lease)
        asyncio.get_running_loop().call_later(CLAIM_SECONDS, self._end_unclaimed, lease)
        return lease, box.id, box.digest, str(self._gate.path) if self._gate else ""

    async def pass_on(
        self, lease: str, header: dict[str, Any], payload: bytes, timeout_s: float
    ) -> tuple[dict[str, Any], bytes]:
        """Have the step server of a leased sandbox answer. Raises SandboxLost, and NodeLost where there is no such
        lease.
        """
        return await self._box(lease).link.call(header, payload, timeout_s=timeout_s)

    async def release(self, lease: str) -> None:
        """End a lease; one that is unknown is none."""
        self._end(lease)

    async def health(self) -> dict[str, Any]:
        """The pool in numbers; see ``pool.Health``. Raises NoEngine."""
        return (await self._opened()).health().json()

    async def close(self) -> None:
        """End every sandbox."""
        if self._gate is not None:
            self._gate.close()
        if self._pool is not None:
            await self._pool.close()

    async def _opened(self) -> Pool:
        async with self._opening:
            if self._refusal is not None and monotonic() - self._refused < ASK_AGAIN:
                raise self._refusal
            if self._pool is None:
                chosen = self._settings
                allow = chosen.allow_local_sandbox
                try:
                    # In a thread: an engine that is frozen takes its time to answer.
                    held = await asyncio.to_thread(
                        backend, chosen.backend, self._run, allow_untrusted=allow, runtime=chosen.runtime
                    )
                except NoEngine as error:
                    self._refusal, self._refused = error, monotonic()
                    raise
                self._pool = await Pool(held, capacity=chosen.per_node, warm=chosen.warm).open()
                # Without it, all come by calls of this actor.
                with contextlib.suppress(OSError):
                    self._gate = await NodeSocket(self._box, self._end).open()
            return self._pool

    def _box(self, lease: str) -> Box:
        """The box of a lease, which is claimed by this. Raises NodeLost."""
        self._unclaimed.discard(lease)
        box = self._leases.get(lease)
        if box is None or self._pool is None or not self._pool.max_duration_s(box):
            raise NodeLost("the lease is over, or the host of the sandbox was restarted")
        return box

    def _end(self, lease: str) -> None:
        self._unclaimed.discard(lease)
        box = self._leases.pop(lease, None)
        if box is not None and self._pool is not None:
            self._pool.release(box)

    def _end_unclaimed(self, lease: str) -> None:
        if lease in self._unclaimed:
            self._end(lease)
