"""The rollout worker: a Ray actor that plays many episodes at the same time in one asyncio loop.

The worker plays the groups that the driver sends, writes each turn to the store as it happens, and returns the
outcomes: Ray carries ids and small numbers, and of trajectories only the suspended ones. It also returns the number of
environment threads that it has abandoned; the driver then drains and replaces the worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import process_time
from typing import Any

from ...base.logs import LogFolder
from ...base.process.children import isolate_signals
from ...base.process.user_code import admit_only
from ...envs.registry import load_plugins
from ...envs.runner.call_thread import abandoned_threads
from ...envs.runner.env_thread import EnvThread
from ...envs.sandboxes import lease_from_run, refuse_leases
from ...records import Group, Outcome, Purpose, Screenshots, Trajectory
from ...store.content.blob_root import BlobRoot
from ...store.content.blobs import BlobStore
from ...store.writing.client import StoreClient
from ..engine.client import PolicyClient
from ..engine.config import MAX_IMAGES
from ..engine.request import Sampling
from ..store_actor import nearest_writer, send_to
from ..tokens.renderers import load_renderer
from .assignment import Assignment
from .group_runner import GroupRunner
from .player import Player, PolicyContext
from .timeouts import Timeouts

PolicyPlayerFactory = Callable[[PolicyContext], Player]
"""Creates the player of one episode. It must be a top-level class or a ``partial`` of one, because Ray pickles it."""


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """The settings of a worker."""

    blobs: str | None
    """The store's place for large content, which this process writes itself."""
    blob_root: BlobRoot | None
    """From ``BlobStore.share``, which verifies that this host has the same folder; None without one."""
    model: str
    """Folder with the tokenizer and its chat template."""
    temperature: float
    evaluation_temperature: float
    timeouts: Timeouts
    concurrency: Mapping[str, int]
    create_player: PolicyPlayerFactory
    seed: int
    """The seed of the run, for the random streams of rollout controllers."""
    max_images: int = MAX_IMAGES
    """Images in the context of the policy, at most."""
    screenshots: Screenshots = "end"
    sandboxes: str = ""
    """Name of the run whose hosts lease sandboxes to environments; empty if no environment needs one."""
    logs: LogFolder | None = None
    """Folder of the worker's log file; None to write none."""
    modules: frozenset[str] | None = None
    """The modules that a name may import, as in the driver; None for every module."""
    retry_s: float = 0.0
    """As in ``StoreClient``."""

    def sampling(self, purpose: Purpose, stop: Sequence[int]) -> Sampling:
        """Return how the turns of a group with this purpose are sampled, which ``stop`` tokens end."""
        return Sampling(tuple(stop), self.evaluation_temperature if purpose is Purpose.EVAL else self.temperature)


class RolloutWorker:
    """Plays groups with the run's policy. The run makes it a Ray actor."""

    def __init__(self, spec: WorkerSpec, engines: Sequence[Any], writers: Mapping[str, Any]) -> None:
        """``writers`` maps the id of a node to its ``StoreActor`` actor."""
        if spec.logs is not None:
            spec.logs.attach("worker")
        isolate_signals()
        self._spec = spec
        self._engines = engines
        self._writers = writers
        self._renderer = load_renderer(spec.model)
        self._runner: GroupRunner | None = None
        self._engine_client: PolicyClient | None = None
        self._store_client: StoreClient | None = None
        self._playing: set[asyncio.Task[list[Outcome]]] = set()

    async def play(self, assignment: Assignment) -> tuple[list[Outcome], int]:
        """Play an assignment; return the outcomes and the number of threads abandoned by this process."""
        runner = self._runner or self._start()
        task = asyncio.ensure_future(runner.play(assignment))
        self._playing.add(task)
        try:
            return await task, abandoned_threads()
        finally:
            self._playing.discard(task)

    async def cancel(self) -> None:
        """Cancel every running episode; each is recorded as cancelled before this returns."""
        playing = list(self._playing)
        for task in playing:
            task.cancel()
        await asyncio.gather(*playing, return_exceptions=True)
        if self._store_client is not None:
            await self._store_client.flush()

    async def slot_held_s(self, group: str) -> float:
        """Return the seconds for which the longest-running attempt of a group has held its slot."""
        return self._runner.slot_held_s(group) if self._runner is not None else 0.0

    async def usage(self) -> dict[str, float]:
        """Return seconds so far: ``cpu_s`` of processor time of this process, and ``slot_s`` in which its slots for
        episodes were held, as a mean over the slots."""
        return {"cpu_s": process_time(), "slot_s": self._runner.mean_slot_s() if self._runner is not None else 0.0}

    async def ready(self) -> bool:
        """Return True once the process is up, its node's path into the store is open, and the plugins are loaded.

        Raises:
            StoreError: the store, or its folder of large content, cannot be opened from here.
        """
        if self._runner is None:
            self._start()
        await asyncio.to_thread(load_plugins)
        return bool(await nearest_writer(self._writers).ping.remote())

    async def close(self) -> None:
        """Close the environments and the engine client."""
        if self._runner is not None:
            await self._runner.close()
        if self._engine_client is not None:
            await self._engine_client.close()

    def _start(self) -> GroupRunner:
        admit_only(self._spec.modules)
        if self._spec.sandboxes:
            lease_from_run(self._spec.sandboxes)
        else:
            refuse_leases()
        spec = self._spec
        self._engine_client = PolicyClient(self._engines, spec.sampling(Purpose.TRAIN, self._renderer.stop_tokens))
        blobs = BlobStore(spec.blobs, spec.blob_root)
        self._store_client = StoreClient(send_to(nearest_writer(self._writers)), blobs, spec.retry_s)
        self._runner = GroupRunner(
            self._store_client,
            self._player,
            spec.timeouts,
            spec.concurrency,
            seed=spec.seed,
            screenshots=spec.screenshots,
        )
        return self._runner

    def _player(self, env_thread: EnvThread, group: Group, trajectory: Trajectory) -> Player:
        assert self._engine_client is not None  # noqa: S101
        spec, client = self._spec, self._engine_client
        sampling = spec.sampling(group.purpose, self._renderer.stop_tokens)
        context = PolicyContext.of(
            client, self._renderer, env_thread, group, trajectory, spec.timeouts.turn_s, sampling, spec.max_images
        )
        return spec.create_player(context)
