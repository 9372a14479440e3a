"""Supervisor: keeps a ``SandboxNode`` actor on every node of the Ray cluster.

It runs in the process that owns the run. A node that joins the cluster gets an actor without a restart of the run.
"""

import asyncio
import contextlib
import logging
from typing import Any

from ...logs import LogFolder, log_errors
from .node import SandboxNode, actor_name
from .settings import SandboxSettings

LOG = logging.getLogger(__name__)

NODE_POLL_INTERVAL_S = 2.0
"""Seconds between two checks for nodes that joined or left."""
NODE_CALL_TIMEOUT_S = 10.0
"""Timeout of calls that a node actor answers without waiting."""


def alive_nodes() -> dict[str, str]:
    """Return the address of each live node of the cluster, by node id."""
    import ray

    return {str(node["NodeID"]): str(node["NodeManagerAddress"]) for node in ray.nodes() if node["Alive"]}


class NodeSupervisor:
    """Keeps the node actors of one run from ``open`` to ``close``, in one event loop."""

    def __init__(self, run: str, settings: SandboxSettings, logs: LogFolder | None = None) -> None:
        self.run = run
        self._logs = logs
        self.settings = settings
        self.actors: dict[str, Any] = {}
        """By node id."""
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    def open(self) -> None:
        """Start the actors of the present nodes, and a task that watches for new nodes."""
        self._update()
        self._task = asyncio.get_running_loop().create_task(self._watch())

    async def health(self) -> list[dict[str, Any]]:
        """Return the node id and ``PoolHealth`` of each node whose actor answers and has an engine."""
        found = []
        for node, actor in list(self.actors.items()):
            with log_errors(LOG, "a sandbox node does not answer", node=node):
                async with asyncio.timeout(NODE_CALL_TIMEOUT_S):
                    found.append({"node": node, **await actor.health.remote()})
        return found

    async def close(self) -> None:
        """End the actors and their sandboxes."""
        import ray

        if self._task is not None:
            self._closing.set()
            await self._task
        for actor in list(self.actors.values()):
            with log_errors(LOG, "a sandbox node did not close; it is killed"):
                async with asyncio.timeout(NODE_CALL_TIMEOUT_S):
                    await actor.close.remote()
            ray.kill(actor)

    async def _watch(self) -> None:
        while not self._closing.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), NODE_POLL_INTERVAL_S)
                return
            # If the cluster does not answer, the next interval retries.
            with log_errors(LOG, "the nodes of the cluster cannot be listed; retrying"):
                await asyncio.to_thread(self._update)

    def _update(self) -> None:
        """Forget the actors of nodes that left and start actors on nodes that joined."""
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        alive = alive_nodes()
        for node in [node for node in self.actors if node not in alive]:
            del self.actors[node]
        for node, address in [(node, address) for node, address in alive.items() if node not in self.actors]:
            self.actors[node] = (
                ray.remote(SandboxNode)
                .options(
                    name=actor_name(self.run, node),
                    num_cpus=0,
                    max_concurrency=10_000,
                    max_restarts=-1,
                    scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
                )
                .remote(self.run, self.settings.model_dump(), self._logs, address)
            )
