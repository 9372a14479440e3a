"""Leases from the node actors of a run, for every worker.

Each lease is a connection to the ``LeaseServer`` of a node, so it ends with this process. A lease request goes to the
worker's own node, then to the others. Only if all are full does the request wait, at the node with the fewest waiting
requests. If the actor of that node dies, the request moves to the next.
"""

import contextlib
import random
from collections.abc import Iterator
from time import monotonic, sleep
from typing import Any, cast

from ..errors import LeaseTimeout, NodeLost, NoEngine, SandboxBroken, SandboxError, SandboxLost, TooLarge, classify
from ..lease import SandboxLease
from ..loop_thread import LoopThread
from ..spec import SandboxSpec
from .lease_server import NodeEndpoint
from .leased_connection import NODE_GRACE_S, LeasedConnection, request_lease
from .node import NODE_CALL_TIMEOUT_S, NODE_POLL_INTERVAL_S, actor_name, alive_nodes

NODE_WAIT_MAX_S = 5.0
"""Maximum wait of a request at one node, before all nodes are tried again."""
RETRY_INTERVAL_S = 0.2
"""Back-off before all nodes are tried again."""
RETRIED = (NodeLost, LeaseTimeout, SandboxBroken, SandboxLost)
"""Errors of one node or one sandbox, after which the next node is tried."""


class ClusterProvider:
    """``LeaseProvider`` of the node actors that the ``NodeSupervisor`` of a run keeps. Ray must be connected."""

    def __init__(self, run: str) -> None:
        self.run = run
        self._thread = LoopThread()
        self._actors: dict[str, Any] = {}
        self._endpoints: dict[str, tuple[NodeEndpoint, bool]] = {}
        """By node id, with whether its unix socket is used; forgotten after a failure."""
        self._polled_at = -NODE_POLL_INTERVAL_S
        self._nodes: list[str] = []

    def lease(self, spec: SandboxSpec, *, timeout_s: float, max_duration_s: float | None = None) -> SandboxLease:
        """Return a lease as ``LeaseProvider.lease`` does."""
        until = monotonic() + timeout_s
        max_duration_s = min(max_duration_s or spec.ttl_s, spec.ttl_s)
        reason = "no node of the cluster has a sandbox actor yet"
        refusal: NoEngine | TooLarge | None = None
        while (left := until - monotonic()) > 0:
            unable, able = 0, list[tuple[str, Any]]()
            actors = list(self._own_node_first())
            for node, actor in actors:
                try:
                    lease = self._request(node, actor, spec, min(left, NODE_WAIT_MAX_S), max_duration_s, wait=False)
                except (NoEngine, TooLarge) as error:
                    reason, unable, refusal = str(error), unable + 1, error
                    continue
                except RETRIED as error:
                    reason = str(error)
                    self._forget(node)
                    continue
                able.append((node, actor))
                if lease is not None:
                    return lease
            if refusal is not None and unable == len(actors):
                raise refusal
            if shortest := self._shortest_queue(able):
                node, actor = shortest
                try:
                    short = min(until - monotonic(), NODE_WAIT_MAX_S)
                    if lease := self._request(node, actor, spec, short, max_duration_s, wait=True):
                        return lease
                except (LeaseTimeout, NoEngine, TooLarge) as error:
                    reason = str(error)
                except RETRIED as error:
                    reason = str(error)
                    self._forget(node)
            self._polled_at = -NODE_POLL_INTERVAL_S
            sleep(RETRY_INTERVAL_S)
        raise LeaseTimeout(f"no sandbox of image {spec.image} within {timeout_s:g} s on any node: {reason}")

    def _request(
        self, node: str, actor: Any, spec: SandboxSpec, timeout_s: float, max_duration_s: float, *, wait: bool
    ) -> SandboxLease | None:
        """Return a lease from one node; without ``wait``, None if the node has no room. Raises SandboxError."""
        until = monotonic() + timeout_s
        failure = "leasing: the node of the sandbox cannot be reached"
        routes = [self._endpoints[node]] if node in self._endpoints else self._routes(node, actor, timeout_s)
        for endpoint, near in routes:
            left = max(0.0, until - monotonic())
            work = request_lease(endpoint, spec, timeout_s=left, max_duration_s=max_duration_s, wait=wait, near=near)
            try:
                sandbox = self._thread.wait(work, left + 2 * NODE_GRACE_S)
            except OSError as error:
                failure = f"{failure}: {error}"
                continue
            self._endpoints[node] = endpoint, near
            if sandbox is None:
                return None
            return SandboxLease(sandbox, self._thread, cast(LeasedConnection, sandbox.connection).release)
        raise NodeLost(failure)

    def _routes(self, node: str, actor: Any, timeout_s: float) -> Iterator[tuple[NodeEndpoint, bool]]:
        """Yield the ways to a node: its unix socket if this process is on the same one, then TCP."""
        if node == _own_node():
            endpoint = _result(actor.endpoint.remote(tcp=False), timeout_s, "leasing")
            if endpoint.path:
                yield endpoint, True
        yield _result(actor.endpoint.remote(tcp=True), timeout_s, "leasing"), False

    def _forget(self, node: str) -> None:
        self._actors.pop(node, None)
        self._endpoints.pop(node, None)

    def _own_node_first(self) -> Iterator[tuple[str, Any]]:
        """Yield node id and actor: this process's node, then the others in random order."""
        import ray

        own = _own_node()
        if monotonic() - self._polled_at > NODE_POLL_INTERVAL_S:
            self._polled_at = monotonic()
            self._nodes = list(alive_nodes())
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
