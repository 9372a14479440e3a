"""Path from a worker to a sandbox of another node: every request is a call of the node actor.

Also used on the same node if the worker cannot reach the node socket, for example from another container. A call costs
several milliseconds more than the socket.
"""

import asyncio
from typing import Any

from ..errors import NodeLost, SandboxError, classify
from .node_socket import NODE_GRACE_S


class ActorConnection:
    """Worker end of a lease through calls of a node actor."""

    def __init__(self, node: Any, name: str, lease: str) -> None:
        self.alive = True
        self._node = node
        self._name = name
        self._lease = lease

    async def open(self) -> None:
        """Claim the lease. Raises NodeLost, SandboxLost."""
        await self.call({"op": "ping"}, timeout_s=NODE_GRACE_S)

    async def call(self, header: dict[str, Any], payload: bytes = b"", *, timeout_s: float) -> tuple[Any, bytes]:
        """Send a request and return its answer.

        Raises:
            SandboxLost: the sandbox ended or did not answer.
            NodeLost: the lease is over, or the node actor ended or did not answer.
        """
        operation = f"sandbox {self._name}: {header['op']}"
        if not self.alive:
            raise NodeLost(f"{operation}: the lease is over")
        try:
            async with asyncio.timeout(timeout_s + NODE_GRACE_S):
                answer, data = await self._node.forward.remote(self._lease, header, payload, timeout_s)
        except TimeoutError:
            raise NodeLost(
                f"{operation}: its node actor did not answer within {timeout_s + NODE_GRACE_S:g} s"
            ) from None
        except Exception as error:  # noqa: BLE001 - raised again as a SandboxError
            cause = getattr(error, "cause", None)
            raise (cause if isinstance(cause, SandboxError) else classify(error, operation)) from None
        return answer, data

    def close(self, reason: str = "closed") -> None:
        """Release the lease."""
        if self.alive:
            self.alive = False
            self._node.release.remote(self._lease)
