"""Sandboxes of the nodes of a run: a Ray actor per node that owns the node's pool, and the supervisor of the actors.

There is one actor per node, not per sandbox, because an actor takes 40 MiB and a sandbox 8. When the actor dies, its
connections close and its sandboxes end; leases from it raise ``NodeLost``, and Ray restarts it with an empty pool.
Workers request leases from its ``LeaseServer``, so that a lease needs no call of the actor.

The supervisor runs in the process that owns the run. A node that joins the cluster gets an actor without a restart.
"""

import asyncio
import contextlib
import logging
from time import monotonic
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ...base.logs import LogFolder, log_errors
from ..backends.registry import check_options, make_backend
from ..errors import NoEngine, SandboxError
from ..pool import Pool
from .lease_server import LeaseServer, NodeEndpoint

LOG = logging.getLogger(__name__)

ENGINE_RETRY_INTERVAL_S = 10.0
"""Time for which the error of a missing engine is raised again, before the engine is tried again."""
NODE_POLL_INTERVAL_S = 2.0
"""Seconds between two checks for nodes that joined or left."""
NODE_CALL_TIMEOUT_S = 10.0
"""Timeout of calls that a node actor answers without waiting."""


class SandboxSettings(BaseModel):
    """Backend and pool of every node."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    backend: str = "auto"
    """``docker``, ``local`` (bubblewrap), any registered one, or ``auto``: Docker if an engine answers, else local."""
    max_per_node: int = Field(32, ge=1)
    """Maximum number of sandboxes per node."""
    memory_per_node_mib: int | None = Field(None, ge=64)
    """Maximum memory of all sandboxes of a node together; default: three quarters of the node's memory."""
    warm: int = Field(2, ge=0)
    """Idle sandboxes kept in addition to the leased ones, within ``max_per_node`` and ``memory_per_node_mib``."""
    allow_local_sandbox: bool = False
    """Whether the local backend accepts tasks that are not declared trusted."""
    options: dict[str, Any] = {}
    """Settings of the backend. Docker: ``runtime``, another OCI runtime such as ``runsc``."""

    @model_validator(mode="after")
    def _check_backend(self) -> Self:
        try:
            check_options(self.backend, self.options)
        except SandboxError as error:
            raise ValueError(str(error)) from None
        return self


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
                    backend, capacity=settings.max_per_node, memory_mib=settings.memory_per_node_mib, warm=settings.warm
                ).open()
                self._opened = pool, await LeaseServer(pool, self._address).open()
            return self._opened


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
