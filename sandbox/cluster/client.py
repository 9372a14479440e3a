"""Leases from the node actors of a run, for every worker.

A lease request goes to the actor of the worker's own node, then to the others. Only if all are full does the request
wait, at the actor with the fewest waiting requests. If that actor dies, the request moves to the next.
"""

import asyncio
import contextlib
import random
from collections.abc import Iterator
from time import monotonic, sleep
from typing import Any

from ..errors import LeaseTimeout, NodeLost, NoEngine, SandboxError, SandboxLost, TooLarge, classify
from ..lease import SandboxLease
from ..loop_thread import LoopThread
from ..sandbox import Sandbox
from ..spec import SandboxSpec
from ..transport.connection import STREAM_LIMIT_BYTES
from .actor_call import ActorConnection
from .node import actor_name
from .node_socket import NODE_GRACE_S, SocketConnection
from .supervisor import NODE_CALL_TIMEOUT_S, NODE_POLL_INTERVAL_S, alive_nodes

NODE_WAIT_MAX_S = 5.0
"""Maximum wait of a request at one node, before all nodes are tried again."""
RETRY_INTERVAL_S = 0.2
"""Back-off before all nodes are tried again."""


class ClusterProvider:
    """``LeaseProvider`` of the node actors that the ``NodeSupervisor`` of a run keeps. Ray must be connected."""

    def __init__(self, run: str) -> None:
        self.run = run
        self._thread = LoopThread()
        self._actors: dict[str, Any] = {}
        self._polled_at = -NODE_POLL_INTERVAL_S
        self._nodes: list[str] = []

    def lease(self, spec: SandboxSpec, *, timeout_s: float, max_duration_s: float | None = None) -> SandboxLease:
        """Return a lease as ``LeaseProvider.lease`` does."""
        until = monotonic() + timeout_s
        plain = spec.model_dump()
        max_duration_s = min(max_duration_s or spec.ttl_s, spec.ttl_s)
        reason = "no node of the cluster has a sandbox actor yet"
        refusal: NoEngine | TooLarge | None = None
        while (left := until - monotonic()) > 0:
            unable, able = 0, list[tuple[str, Any]]()
            actors = list(self._own_node_first())
            for node, actor in actors:
                try:
                    short = min(left, NODE_WAIT_MAX_S)
                    found = _result(actor.lease.remote(plain, short, max_duration_s, wait=False), short, "leasing")
                except (NoEngine, TooLarge) as error:
                    reason, unable, refusal = str(error), unable + 1, error
                    continue
                except SandboxError as error:
                    if not isinstance(error, NodeLost | LeaseTimeout | SandboxLost):
                        raise
                    reason = str(error)
                    self._actors.pop(node, None)
                    continue
                able.append((node, actor))
                if found is not None:
                    with contextlib.suppress(NodeLost):
                        return self._make_lease(spec, node, actor, found)
            if refusal is not None and unable == len(actors):
                raise refusal
            with contextlib.suppress(NodeLost, LeaseTimeout, SandboxLost, NoEngine, TooLarge):
                if shortest := self._shortest_queue(able):
                    node, actor = shortest
                    wait = min(until - monotonic(), NODE_WAIT_MAX_S)
                    found = _result(actor.lease.remote(plain, wait, max_duration_s, wait=True), wait, "leasing")
                    return self._make_lease(spec, node, actor, found)
            self._polled_at = -NODE_POLL_INTERVAL_S
            sleep(RETRY_INTERVAL_S)
        raise LeaseTimeout(f"no sandbox of image {spec.image} within {timeout_s:g} s on any node: {reason}")

    def _make_lease(self, spec: SandboxSpec, node: str, actor: Any, found: tuple[str, str, str, str]) -> SandboxLease:
        lease, name, digest, path = found
        work = connect(path if node == _own_node() else "", actor, name, lease)
        connection = self._thread.wait(work, NODE_CALL_TIMEOUT_S)
        return SandboxLease(Sandbox(name, spec, connection, _do_nothing, digest), self._thread, connection.close)

    def _own_node_first(self) -> Iterator[tuple[str, Any]]:
        """Yield node id and actor: this process's node, then the others in random order."""
        import ray

        own = _own_node()
        if monotonic() - self._polled_at > NODE_POLL_INTERVAL_S:
            self._polled_at = monotonic()
            self._nodes = alive_nodes()
        others = [node for node in self._nodes if node != own]
        random.shuffle(others)
        for node in [own, *others]:
            actor = self._actors.get(node)
            if actor is None:
                try:
                    actor = self._actors[node] = ray.get_actor(actor_name(self.run, node))
                except ValueError:
                    continue
            yield node, actor

    def _shortest_queue(self, actors: list[tuple[str, Any]]) -> tuple[str, Any] | None:
        waiting = []
        for number, (_, actor) in enumerate(actors):
            with contextlib.suppress(SandboxError):
                health = _result(actor.health.remote(), NODE_CALL_TIMEOUT_S, "health")
                waiting.append((health["waiting"], number))
        return actors[min(waiting)[1]] if waiting else None


async def connect(path: str, actor: Any, name: str, lease: str) -> SocketConnection | ActorConnection:
    """Return the fastest connection to a sandbox that was just leased.

    ``path`` is the path of the node socket, or empty if the sandbox is on another node.

    Raises:
        NodeLost, SandboxLost: the node actor or the sandbox ended before the connection was open.
    """
    if path:
        with contextlib.suppress(OSError):
            streams = await asyncio.open_unix_connection(path, limit=STREAM_LIMIT_BYTES)
            by_socket = SocketConnection(name, *streams)
            try:
                await by_socket.open(lease)
            except OSError:
                by_socket.close()
                raise NodeLost(f"sandbox {name}: {by_socket.lost_message}") from None
            return by_socket
    by_calls = ActorConnection(actor, name, lease)
    await by_calls.open()
    return by_calls


async def _do_nothing() -> None:
    """Close a leased sandbox: its node actor does the work when the connection closes."""


def _own_node() -> str:
    """Return the id of this process's node."""
    import ray

    return str(ray.get_runtime_context().get_node_id())


def _result(reference: Any, timeout_s: float, operation: str) -> Any:
    """Wait for the answer of a node actor; raise every failure as a SandboxError."""
    import ray
    import ray.exceptions

    try:
        return ray.get(reference, timeout=timeout_s + NODE_GRACE_S)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        raise (cause if isinstance(cause, SandboxError) else classify(error, operation)) from None
    except ray.exceptions.GetTimeoutError:
        raise NodeLost(
            f"{operation}: the node actor of the sandbox did not answer within {timeout_s + NODE_GRACE_S:g} s"
        ) from None
    except ray.exceptions.RayError as error:
        raise classify(error, operation) from error
