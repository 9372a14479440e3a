"""The sandboxes of a Ray cluster: a host on every node, and leases from them, the near one first.

``NodeSupervisor`` runs in the process that owns the run and starts a host wherever a node has none, so that a node
that joins adds its sandboxes without a restart. ``ClusterProvider`` is the source of leases in every worker: it asks
its own node's host, then the others, and only when all are full does it wait, at the one with the shortest queue. A
host that dies while somebody waits there only sends him to the next.
"""

import asyncio
import contextlib
import random
from collections.abc import Iterator
from time import monotonic, sleep
from typing import Any

from ..errors import LeaseTimeout, NodeLost, NoEngine, SandboxError, SandboxLost, classify
from ..lease import SandboxLease
from ..pool.loop_thread import LoopThread
from ..sandbox import Box
from ..spec import SandboxSpec
from .node import SandboxNode, SandboxSettings
from .node_socket import LATE, dial

LOOK_SECONDS = 2.0
"""Between two looks for nodes that joined or left."""
PATIENCE = 5.0
"""Seconds to wait at one host before looking at all of them again."""
REST = 0.2
"""Seconds until all are asked again where nobody could be waited for."""
ASK_SECONDS = 10.0
"""For what a host answers at once."""


def actor_name(run: str, node: str) -> str:
    """The Ray name of a node's host."""
    return f"turnwise-sandboxes-{run}-{node}"


def alive_nodes() -> list[str]:
    """The ids of the cluster's nodes that are up."""
    import ray

    return [str(node["NodeID"]) for node in ray.nodes() if node["Alive"]]


class NodeSupervisor:
    """Keeps a host on every node, from ``open`` to ``close``. Of one event loop."""

    def __init__(self, run: str, settings: SandboxSettings) -> None:
        self.run = run
        self.settings = settings
        self.hosts: dict[str, Any] = {}
        """The actors, by node."""
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    def open(self) -> None:
        """Start the hosts of the nodes there are, and keep looking for more."""
        self._look()
        self._task = asyncio.get_running_loop().create_task(self._keep())

    async def health(self) -> list[dict[str, Any]]:
        """Each node's pool in numbers (``pool.Health``), where its host answers and has an engine."""
        found = []
        for node, host in list(self.hosts.items()):
            with contextlib.suppress(Exception):
                async with asyncio.timeout(ASK_SECONDS):
                    found.append({"node": node, **await host.health.remote()})
        return found

    async def close(self) -> None:
        """End the hosts and their sandboxes."""
        import ray

        if self._task is not None:
            self._closing.set()
            await self._task
        for host in list(self.hosts.values()):
            with contextlib.suppress(Exception):
                async with asyncio.timeout(ASK_SECONDS):
                    await host.close.remote()
            ray.kill(host)

    async def _keep(self) -> None:
        while not self._closing.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), LOOK_SECONDS)
                return
            # A cluster that does not answer now is asked again.
            with contextlib.suppress(Exception):
                await asyncio.to_thread(self._look)

    def _look(self) -> None:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        alive = alive_nodes()
        for node in [node for node in self.hosts if node not in alive]:
            del self.hosts[node]
        for node in [node for node in alive if node not in self.hosts]:
            self.hosts[node] = (
                ray.remote(SandboxNode)
                .options(
                    name=actor_name(self.run, node),
                    num_cpus=0,
                    max_concurrency=10_000,
                    max_restarts=-1,
                    scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
                )
                .remote(self.run, self.settings.model_dump())
            )


class ClusterProvider:
    """A source of leases (``leased.Source``) from the hosts that a ``NodeSupervisor`` of this run keeps."""

    def __init__(self, run: str) -> None:
        self.run = run
        self._thread = LoopThread()
        self._handles: dict[str, Any] = {}
        self._looked = -LOOK_SECONDS
        self._nodes: list[str] = []

    def lease(self, spec: SandboxSpec, *, timeout_s: float, max_duration_s: float | None = None) -> SandboxLease:
        """See ``leased.Source``."""
        until = monotonic() + timeout_s
        plain = spec.model_dump()
        max_duration_s = min(max_duration_s or spec.ttl, spec.ttl)
        why = "no node of the cluster has a host for sandboxes yet"
        while (left := until - monotonic()) > 0:
            useless = 0
            hosts = list(self._near_first())
            for node, host in hosts:
                try:
                    short = min(left, PATIENCE)
                    got = _ask(host.lease.remote(plain, short, max_duration_s, patient=False), short, "leasing")
                except NoEngine as error:
                    why, useless = str(error), useless + 1
                    continue
                except SandboxError as error:
                    if not isinstance(error, NodeLost | LeaseTimeout | SandboxLost):
                        raise
                    why = str(error)
                    self._handles.pop(node, None)
                    continue
                if got is not None:
                    with contextlib.suppress(NodeLost):
                        return self._leased(spec, node, host, got)
            if hosts and useless == len(hosts):
                raise NoEngine(why)
            with contextlib.suppress(NodeLost, LeaseTimeout, SandboxLost):
                if least := self._least_waiting(hosts):
                    node, host = least
                    wait = min(until - monotonic(), PATIENCE)
                    got = _ask(host.lease.remote(plain, wait, max_duration_s, patient=True), wait, "leasing")
                    return self._leased(spec, node, host, got)
            self._looked = -LOOK_SECONDS
            sleep(REST)
        raise LeaseTimeout(f"no sandbox of image {spec.image} within {timeout_s:g} s on any node: {why}")

    def _leased(self, spec: SandboxSpec, node: str, host: Any, got: tuple[str, str, str, str]) -> SandboxLease:
        lease, name, digest, gate = got
        link = self._thread.wait(dial(gate if node == _here() else "", host, name, lease), ASK_SECONDS)
        return SandboxLease(Box(name, spec, link, _nothing_more, digest), self._thread, link.close)

    def _near_first(self) -> Iterator[tuple[str, Any]]:
        """The hosts there are: this node's, then the others in any order."""
        import ray

        here = _here()
        if monotonic() - self._looked > LOOK_SECONDS:
            self._looked = monotonic()
            self._nodes = alive_nodes()
        others = [node for node in self._nodes if node != here]
        random.shuffle(others)
        for node in [here, *others]:
            host = self._handles.get(node)
            if host is None:
                try:
                    host = self._handles[node] = ray.get_actor(actor_name(self.run, node))
                except ValueError:
                    continue
            yield node, host

    def _least_waiting(self, hosts: list[tuple[str, Any]]) -> tuple[str, Any] | None:
        waiting = []
        for number, (_, host) in enumerate(hosts):
            with contextlib.suppress(SandboxError):
                waiting.append((_ask(host.health.remote(), ASK_SECONDS, "health")["waiting"], number))
        return hosts[min(waiting)[1]] if waiting else None


async def _nothing_more() -> None:
    """A borrowed box is ended by its host."""


def _here() -> str:
    """The id of this process's node."""
    import ray

    return str(ray.get_runtime_context().get_node_id())


def _ask(reference: Any, timeout_s: float, what: str) -> Any:
    """Wait for a host's answer; whatever it raised or Ray says, as an error of ours."""
    import ray
    import ray.exceptions

    try:
        return ray.get(reference, timeout=timeout_s + LATE)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        raise (cause if isinstance(cause, SandboxError) else classify(error, what)) from None
    except ray.exceptions.GetTimeoutError:
        raise NodeLost(f"{what}: the host of the sandbox did not answer for {timeout_s + LATE:g} s") from None
    except ray.exceptions.RayError as error:
        raise classify(error, what) from error
