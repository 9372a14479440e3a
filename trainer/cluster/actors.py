"""Ray and the actors of a run: engines, rollout workers, and on SQLite the one process that writes.

Started in this process unless an address is given; everything started here dies with this process. No actor takes a
CPU from Ray's count: what they share is the machine, and one thread each is what keeps them from fighting over it.
"""

import asyncio
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from ...agents.engine.actor import start_engine
from ...agents.placement import OFF_SANDBOX_NODES, hosts_of_actors
from ...agents.players.policy import policy_player
from ...agents.rollout.group_runner import env_key_of
from ...agents.rollout.worker import RolloutWorker, WorkerSpec
from ...agents.store_actor import StoreWriter, send_to
from ...agents.weights.shm_writer import WeightWriter
from ...envs.sandboxes import NodeSupervisor, any_sandboxed, lease_from_run
from ...errors import TurnwiseError
from ...logs import LogFolder, log_errors
from ...store.client import StoreClient
from ...store.database import Database, without_password
from ...store.writer import Writer
from ..algorithms.rollout_control.base import RolloutController
from ..config.schema import RunConfig
from ..rollout.worker_pool import WorkerPool
from .daemons import RayDaemons

LOG = logging.getLogger(__name__)

START_DEADLINE = 180.0
"""Seconds everything may take to start."""
PUSH_DEADLINE = 120.0
"""Seconds an engine may take to accept new weights."""
MAX_RESTARTS = 3
"""Engines that may die between two updates before the run is given up."""
WATCH_EVERY = 2.0
"""Seconds between looks at the engines' versions."""

QUIET: Mapping[str, str] = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_worker_niceness": "0",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
}


LOOPBACK: Mapping[str, str] = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""On any system, this is what keeps a Ray that is started here, and all its actors, to the loopback interface."""

_daemons: list[RayDaemons] = []


def start_ray(address: str | None = None) -> None:
    """Connect to a Ray cluster, or start one on this machine, on loopback.

    Raises:
        TurnwiseError: Ray could not be reached or started.
    """
    for name, value in {**QUIET, **({} if address else LOOPBACK)}.items():
        os.environ.setdefault(name, value)
    import ray

    if ray.is_initialized():
        return
    logging.getLogger("ray").setLevel(logging.ERROR)
    settings: dict[str, Any] = (
        {"address": address}
        if address
        else {
            # Without it, Ray joins whatever cluster it finds on this machine.
            "address": "local",
            "num_cpus": os.cpu_count(),
            "include_dashboard": False,
            "object_store_memory": 100 << 20,
            "_node_ip_address": "127.0.0.1",
        }
    )
    settings |= {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": False}
    try:
        _daemons.append(RayDaemons(settings, local=not address))
    except Exception as error:
        raise TurnwiseError(f"Ray could not be {'reached at ' + address if address else 'started'}: {error}") from error


def check_store_reach(database: Database) -> None:
    """Refuse an SQLite store where actors of the run may be placed on other hosts. Ray must be up.

    Raises:
        TurnwiseError: the store is an SQLite file, and the Ray cluster has other hosts for the run's actors.
    """
    if database.engine.dialect.name != "sqlite":
        return
    import ray

    nodes = ray.nodes()
    own = ray.get_runtime_context().get_node_id()
    here = {str(node["NodeManagerAddress"]) for node in nodes if node["NodeID"] == own}
    if others := sorted(hosts_of_actors(nodes) - here):
        raise TurnwiseError(
            f"the store `{without_password(database.url)}` is an SQLite file of this host, and the Ray cluster may "
            f"place actors that write to it on other hosts (`{'`, `'.join(others[:3])}`): use a PostgreSQL store "
            "(`--store postgresql://USER@HOST/NAME`), or train on this host alone, without `--ray-address`"
        )


def stop_ray() -> None:
    """End what ``start_ray`` started."""
    while _daemons:
        _daemons.pop().stop()


@dataclass(slots=True)
class Cluster:
    """The actors of one run, and the policy version the engines are to serve."""

    database: Database
    engines: list[Any]
    workers: WorkerPool
    store_client: StoreClient
    """The driver's path into the store."""
    writer: Any | None
    """The ``StoreWriter`` actor, or None where this process writes for itself."""
    local_writer: Writer | None
    keeper: NodeSupervisor | None
    """Of the nodes' sandboxes; None where no environment asks for any."""
    meta: Any = None
    """Where the weights of ``version`` were written; None for those of the folder the engines were started with."""
    version: int | None = None
    restarts: int = 0
    """Times an engine came back without weights since the last push."""
    failure: TurnwiseError | None = None
    """Why the engines are given up."""
    _pushing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _watch: asyncio.Task[None] | None = None

    @classmethod
    def start(
        cls,
        config: RunConfig,
        database: Database,
        model: Path,
        controller: RolloutController,
        logs: LogFolder | None = None,
    ) -> Self:
        """Start every actor without waiting for any; ``ready`` waits. Ray must be up."""
        import ray

        writer, local = None, None
        if database.engine.dialect.name == "sqlite":
            writer = (
                ray.remote(StoreWriter)
                .options(num_cpus=0, max_restarts=-1, max_concurrency=64, **OFF_SANDBOX_NODES)
                .remote(database.url, logs)
            )
            client = StoreClient(send_to(writer))
        else:
            local = Writer(database)
            client = StoreClient(local.run)
        engines = [
            start_engine(config.engine, str(model), config.max_context, logs=logs)
            for _ in range(config.rollout.num_engines)
        ]
        keeper = None
        if any_sandboxed(one.id for one in config.environments):
            keeper = NodeSupervisor(config.name, config.sandboxes, logs)
            keeper.open()
            lease_from_run(config.name)
        rollout = config.rollout
        spec = WorkerSpec(
            store_url=database.url,
            model=str(model),
            temperature=rollout.temperature,
            timeouts=rollout.timeouts,
            concurrency=concurrency(config, sandboxed=keeper is not None),
            controller=controller,
            create_player=policy_player,
            sandboxes=config.name if keeper else "",
            logs=logs,
        )
        remote = ray.remote(RolloutWorker).options(
            num_cpus=0, max_restarts=0, max_concurrency=10_000, **OFF_SANDBOX_NODES
        )
        workers = WorkerPool(lambda: remote.remote(spec, engines, writer), rollout.num_workers)
        return cls(database, engines, workers, client, writer, local, keeper)

    async def ready(self) -> None:
        """Wait until engines, workers and writer answer, then keep watch over the engines.

        Raises:
            TurnwiseError: something did not start within ``START_DEADLINE`` seconds.
        """
        import ray.exceptions

        waiting = [engine.info.remote() for engine in self.engines] + (
            [self.writer.ping.remote()] if self.writer else []
        )
        try:
            async with asyncio.timeout(START_DEADLINE):
                await asyncio.gather(*waiting)
        except TimeoutError:
            raise TurnwiseError(f"engines and store did not start within {START_DEADLINE:g} s") from None
        except ray.exceptions.RayError as error:
            why = str(error).strip().splitlines()[-1]
            raise TurnwiseError(f"an engine or the store's writer could not start: {why}") from error
        await self.workers.ready(START_DEADLINE)
        self._watch = asyncio.create_task(self._keep_versions())

    async def write(self, weights: WeightWriter) -> None:
        """Copy the weights as they are now to where engines read them; no engine reads meanwhile."""
        async with self._pushing:
            self.meta = await asyncio.to_thread(weights.write)

    async def push(self, weights: WeightWriter | None, version: int) -> None:
        """Give every engine the weights as they are now (None: as last written) in flight, under this version.

        Raises:
            TurnwiseError: an engine did not take them within ``PUSH_DEADLINE`` seconds.
        """
        async with self._pushing:
            if weights is not None:
                self.meta = await asyncio.to_thread(weights.write)
            self.version = version
            self.restarts = 0
            meta = self.meta
            await asyncio.gather(*(self._give(engine, meta, version) for engine in self.engines))

    async def busy(self) -> dict[str, Any]:
        """Sums over the engines since each was started: seconds computing, and tokens. Zeros where one cannot say."""
        import ray.exceptions

        infos: list[dict[str, Any]] = []
        try:
            async with asyncio.timeout(PUSH_DEADLINE):
                infos = await asyncio.gather(*(engine.info.remote() for engine in self.engines))
        except (ray.exceptions.RayError, TimeoutError):
            pass
        return {
            "busy_s": sum(one["busy_s"] for one in infos),
            "sampled_tokens": sum(one["sampled_tokens"] for one in infos),
            "prompt_tokens": sum(one["prompt_tokens"] for one in infos),
            "cached_tokens": sum(one["cached_tokens"] for one in infos),
        }

    async def serve_loaded(self, version: int) -> None:
        """Let every engine serve the weights of the folder it was started with, under this version.

        Raises:
            TurnwiseError: an engine did not within ``PUSH_DEADLINE`` seconds.
        """
        async with self._pushing:
            self.meta, self.version, self.restarts = None, version, 0
            await asyncio.gather(*(self._give(engine, None, version) for engine in self.engines))

    async def _give(self, engine: Any, meta: Any, version: int) -> None:
        import ray.exceptions

        try:
            async with asyncio.timeout(PUSH_DEADLINE):
                while True:
                    try:
                        if meta is None:
                            await engine.use_loaded_weights.remote(version)
                        else:
                            await engine.update_weights.remote(meta, version)
                    except ray.exceptions.RayActorError:
                        await asyncio.sleep(0.5)
                    else:
                        return
        except TimeoutError:
            raise TurnwiseError(f"an engine did not take version {version} within {PUSH_DEADLINE:g} s") from None

    async def _keep_versions(self) -> None:
        """Give its weights back to an engine that was restarted."""
        import ray.exceptions

        while True:
            await asyncio.sleep(WATCH_EVERY)
            for engine in self.engines:
                try:
                    async with asyncio.timeout(PUSH_DEADLINE):
                        info = await engine.info.remote()
                except (ray.exceptions.RayError, TimeoutError):
                    continue
                if info["version"] is None and self.version is not None:
                    self.restarts += 1
                    if self.restarts > MAX_RESTARTS:
                        self.failure = TurnwiseError(
                            f"engines died {self.restarts} times since the last update; can they run this model? "
                            "See Ray's logs of the Engine actors"
                        )
                        return
                    try:
                        async with self._pushing:
                            await self._give(engine, self.meta, self.version)
                    except TurnwiseError as error:
                        self.failure = error
                        return

    async def close(self) -> None:
        """Let everything finish writing, then end the actors."""
        import ray

        if self._watch is not None:
            self._watch.cancel()
        await self.workers.close()
        await self.store_client.flush()
        if self.keeper is not None:
            await self.keeper.close()
        for engine in self.engines:
            with log_errors(LOG, "an engine did not stop; it is killed"):
                async with asyncio.timeout(15):
                    await engine.stop.remote()
            ray.kill(engine)
        if self.writer is not None:
            async with asyncio.timeout(60):
                await self.writer.close.remote()
        if self.local_writer is not None:
            await asyncio.to_thread(self.local_writer.close)


def concurrency(config: RunConfig, *, sandboxed: bool) -> dict[str, int]:
    """Episodes at once in each environment of a worker. Those in sandboxes may hold two each (one for grading), and
    never so many that all wait for one another's.
    """
    kinds = sum(any_sandboxed([one.id]) for one in config.environments) if sandboxed else 1
    room = max(1, config.sandboxes.per_node // (2 * config.rollout.num_workers * max(1, kinds)))
    return {
        env_key_of(one.id, one.options): min(one.concurrency, room)
        if sandboxed and any_sandboxed([one.id])
        else one.concurrency
        for one in config.environments
    }
