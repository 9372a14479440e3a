"""The Ray actors of one run: engines, rollout workers, store writers and sandbox nodes.

Everything that is started here ends with the driver. No actor reserves a CPU with Ray: all share the machine, and one
thread per process keeps them from competing.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

from ...agents.engine.actor import start_engine
from ...agents.model_folder import loading_allowance_s
from ...agents.placement import lost_actor, nodes_of_actors, on_node
from ...agents.players.policy import PolicyPlayer, ThinkingPlayer
from ...agents.rollout.worker import PolicyPlayerFactory, RolloutWorker, WorkerSpec
from ...agents.store_actor import StoreActor, nearest_writer, send_to
from ...base.logs import LogFolder
from ...base.process.user_code import admitted
from ...envs.sandboxes import (
    NodeSupervisor,
    any_sandboxed,
    lease_from_run,
    node_memories_mib,
    sandbox_memory_mib,
)
from ...envs.tasks import env_key_of
from ...errors import TurnwiseError
from ...store.database import Database
from ...store.writing.client import StoreClient
from ...store.writing.commit_queue import CommitQueue
from ..config.schema import RunConfig
from ..config.sections import EnvironmentConfig, RolloutConfig
from ..rollout.worker_pool import WorkerPool, start_error
from .engines import EngineGroup

GPU_ALLOWANCE_S = 300.0
"""Seconds that an engine on a GPU may take longer to start: vLLM compiles kernels and captures graphs. An allowance,
not a measurement."""
WRITER_CLOSE_TIMEOUT_S = 60.0
"""Seconds the writing process may take to commit what is queued."""
SANDBOXES_PER_EPISODE = 2
"""An episode may hold one sandbox for itself and one for grading."""


@dataclass(frozen=True, slots=True)
class StoreAccess:
    """The way of a run's writes into the store."""

    client: StoreClient
    """The driver's path into the store."""
    writers: dict[str, Any]
    """The ``StoreActor`` actor of each node, by node id."""
    start_writer: Callable[[str], Any] | None = None
    """Starts the ``StoreActor`` of a node; None if no further node has one."""
    own: CommitQueue | None = None
    """The writer in this process, of a run without actors."""

    @classmethod
    def start(cls, database: Database, logs: LogFolder | None, note: Callable[[str], None] = lambda text: None) -> Self:
        """Start one ``StoreActor`` actor per node; for SQLite, one on the driver's node.

        Raises:
            TurnwiseError: every node of the Ray cluster is reserved for sandboxes.
        """
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        nodes = [str(node["NodeID"]) for node in nodes_of_actors(ray.nodes())]
        if not nodes:
            raise TurnwiseError(
                "every node of the Ray cluster has the label `turnwise=sandboxes`, and the actors of a run need a node "
                "without it: start one with `ray start`"
            )
        is_sqlite = database.engine.dialect.name == "sqlite"
        if is_sqlite:
            own = ray.get_runtime_context().get_node_id()
            nodes = [own if own in nodes else nodes[0]]

        def start_writer(node: str) -> Any:
            options = {"num_cpus": 0, "max_restarts": -1, "max_concurrency": 64}
            on_node = NodeAffinitySchedulingStrategy(node, soft=True)
            actor = ray.remote(StoreActor).options(**options, scheduling_strategy=on_node)
            return actor.remote(database.address, database.blobs.folder, logs, database.retry_s)

        writers = {node: start_writer(node) for node in nodes}
        client = StoreClient(send_to(nearest_writer(writers), note), database.blobs, database.retry_s)
        return cls(client, writers, None if is_sqlite else start_writer)

    def writers_for(self, node: str) -> Mapping[str, Any]:
        """Return all writers; a node that has none gets one first."""
        if self.start_writer is not None and node not in self.writers:
            self.writers[node] = self.start_writer(node)
        return self.writers

    async def close(self) -> None:
        """Commit what is queued and stop. A writer that died has nothing queued: its clients sent it again."""

        async def stop(writer: Any) -> None:
            with suppress(*lost_actor()):
                await writer.close.remote()

        async with asyncio.timeout(WRITER_CLOSE_TIMEOUT_S):
            await asyncio.gather(*map(stop, self.writers.values()))
        if self.own is not None:
            await asyncio.to_thread(self.own.close)


@dataclass(frozen=True, slots=True)
class Cluster:
    """The actors of one run."""

    engines: EngineGroup
    workers: WorkerPool
    store: StoreAccess
    sandboxes: NodeSupervisor | None
    """Supervises the sandbox nodes; None if no environment uses sandboxes."""
    nodes: Callable[[], Sequence[str]] | None = None
    """Returns the node of each worker that the cluster should have now; None if they stay as they are."""

    @classmethod
    def start(
        cls,
        config: RunConfig,
        database: Database,
        model: Path,
        logs: LogFolder | None = None,
        note: Callable[[str], None] = lambda text: None,
    ) -> Self:
        """Start every actor without waiting for any; ``ready`` waits. Ray must be up.

        A run that plays nothing has no actors here: this process writes, and Ray is not needed.

        Args:
            logs: where each actor writes its log; None writes none.
            note: receives a line for the user when an actor has died.
        """
        if not config.num_engines:
            writer = CommitQueue(database)
            access = StoreAccess(StoreClient(writer.run, database.blobs, database.retry_s), {}, own=writer)
            return cls(EngineGroup([]), WorkerPool(lambda _: None, []), access, None)
        import ray

        store = StoreAccess.start(database, logs, note)
        lora = config.learner.lora
        engines = [
            start_engine(config.engine, str(model), config.max_context, lora_rank=lora.rank if lora else 0, logs=logs)
            for _ in range(config.rollout.num_engines)
        ]
        allowance_s = loading_allowance_s(model) + (GPU_ALLOWANCE_S if config.engine.tensor_parallel_size else 0.0)
        sandboxes = None
        if any_sandboxed(environment.id for environment in config.environments):
            sandboxes = NodeSupervisor(config.name, config.sandboxes, logs)
            sandboxes.open()
            lease_from_run(config.name)
        memories_mib = node_memories_mib(config.sandboxes)
        nodes = fitting_workers(config, memories_mib, worker_nodes(config))
        spec = WorkerSpec(
            blobs=database.blobs.folder,
            blob_root=database.blobs.share(),
            model=str(model),
            seed=config.seed,
            temperature=config.rollout.temperature,
            evaluation_temperature=config.evaluation_temperature,
            timeouts=config.rollout.timeouts,
            max_images=config.horizon.max_images,
            concurrency=episode_slots(config, memories_mib, len(nodes)),
            create_player=player_factory(config.rollout),
            screenshots=config.rollout.screenshots,
            sandboxes=config.name if sandboxes else "",
            logs=logs,
            modules=admitted(),
            retry_s=database.retry_s,
        )
        worker = ray.remote(RolloutWorker)
        options = {"num_cpus": 0, "max_restarts": 0, "max_concurrency": 10_000}
        workers = WorkerPool(
            lambda node: worker.options(**options, **on_node(node)).remote(spec, engines, store.writers_for(node)),
            nodes,
            note,
        )
        # Only this host reaches a store of SQLite, and the shares of workers in sandboxes are fixed.
        is_fixed = sandboxes is not None or database.engine.dialect.name == "sqlite"
        group = EngineGroup(engines, allowance_s, config.engine.start_timeout_s, note)
        return cls(group, workers, store, sandboxes, None if is_fixed else partial(worker_nodes, config))

    async def ready(self) -> None:
        """Wait until engines, workers and the writing process answer, then watch the engines.

        Raises:
            TurnwiseError: an actor did not start within `engine.start_timeout_s` and the engines' allowance.
        """
        import ray.exceptions

        actors = {f"engine {number}": engine.info for number, engine in enumerate(self.engines.actors)}
        actors |= {f"the store's writer on node {node[:8]}": one.ping for node, one in self.store.writers.items()}
        starting = {name: asyncio.ensure_future(method.remote()) for name, method in actors.items()}
        timeout_s = self.engines.start_timeout_s + self.engines.allowance_s
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(*starting.values())
        except TimeoutError:
            late = ", ".join(name for name, one in starting.items() if one.cancelled())
            raise TurnwiseError(
                f"{late} did not start within {timeout_s:.4g} s: `turnwise runs logs RUN` prints what they logged; one "
                "that logged nothing waits for its place in the Ray cluster (`ray status`); on a busy machine, raise "
                "`engine.start_timeout_s`"
            ) from None
        except ray.exceptions.RayError as error:
            raise start_error("an engine or the store's writer", error) from error
        await self.workers.ready(self.engines.start_timeout_s)
        self.engines.watch()
        if self.nodes is not None:
            self.workers.follow(self.nodes)

    async def close(self) -> None:
        """Let every actor finish its writes, then end all actors."""
        await self.workers.close()
        await self.store.client.flush()
        if self.sandboxes is not None:
            await self.sandboxes.close()
        await self.engines.close()
        await self.store.close()


def worker_nodes(config: RunConfig) -> list[str]:
    """Return the id of the node of each rollout worker, for the nodes that are in the cluster now."""
    import ray

    return [
        str(node["NodeID"]) for node in nodes_of_actors(ray.nodes()) for _ in range(config.rollout.workers_per_node)
    ]


def player_factory(rollout: RolloutConfig) -> PolicyPlayerFactory:
    """Return the factory of the policy's players: with thoughts, if the configuration allows tokens for them."""
    if not rollout.max_thought_tokens:
        return PolicyPlayer
    return partial(ThinkingPlayer, max_thought_tokens=rollout.max_thought_tokens, request=rollout.action_request)


def fitting_workers(config: RunConfig, memories_mib: Sequence[int], nodes: Sequence[str]) -> list[str]:
    """Return those of ``nodes``, one per worker, that ``episode_slots`` has an episode for, but at least one."""
    fitting = _fitting_episodes(config, memories_mib)
    return list(nodes[: max(1, min(fitting.values(), default=len(nodes)))])


def episode_slots(config: RunConfig, memories_mib: Sequence[int], workers: int) -> dict[str, int]:
    """Return how many episodes each of ``workers`` runs at once in each environment.

    Environments with sandboxes get at most an equal share of the sandboxes that fit into all nodes, by
    ``sandboxes.max_per_node`` and by the memory for sandboxes of each node, ``memories_mib``. Otherwise episodes could
    wait for sandboxes that only other waiting episodes return.
    """
    fitting = _fitting_episodes(config, memories_mib)

    def slots(one: EnvironmentConfig) -> int:
        return min(one.concurrency, max(1, fitting[one.id] // workers)) if one.id in fitting else one.concurrency

    return {env_key_of(environment.id, environment.options): slots(environment) for environment in config.environments}


def _fitting_episodes(config: RunConfig, memories_mib: Sequence[int]) -> dict[str, int]:
    """Return how many episodes of each environment with sandboxes fit into all nodes at once, in equal shares."""
    sandboxed = [environment.id for environment in config.environments if any_sandboxed([environment.id])]

    def episodes(env_id: str) -> int:
        size_mib = sandbox_memory_mib(env_id)
        per_node = [min(config.sandboxes.max_per_node, memory // size_mib) for memory in memories_mib]
        return sum(count // SANDBOXES_PER_EPISODE for count in per_node) // len(sandboxed)

    return {env_id: episodes(env_id) for env_id in sandboxed}
