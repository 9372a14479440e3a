"""The groups that the policy of the run plays while it is trained.

The dispatcher runs in the event loop of the training. The two sides meet in the store's counts of groups, and in
``publish``, which delays new groups until the engines serve the new version.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Self

from ...records import PolicyVersion, ScoredGroup
from ...store import queries
from ...store.errors import StoreError
from ...store.maintenance.policy import RetentionPolicy
from ...store.run_store import RunStore
from ..cluster.usage import Busy, ClusterUsage, Utilization
from ..context import RunContext
from ..failpoints import failpoint
from ..learner.update import UpdateResult, UpdateStep
from ..rollout.dispatcher import Dispatcher
from .batch_wait import BatchWait
from .group_source import GroupSource
from .preparation import RunParts
from .state import RunState

LOG = logging.getLogger(__name__)


class PlayedGroups(GroupSource):
    """Keeps groups in flight, and leases those that are ready."""

    def __init__(
        self,
        context: RunContext,
        state: RunState,
        parts: RunParts,
        history: dict[int, PolicyVersion],
        first_group: int,
        first_scoring: int,
    ) -> None:
        """``history`` holds all versions by id; ``first_group`` and ``first_scoring`` number what comes next."""
        super().__init__(UpdateStep(context, parts.learner, history))
        self._context = context
        self._state = state
        self._parts = parts
        self._dispatcher = Dispatcher(context, parts.cluster.workers, first_group, first_scoring)
        self._batches = BatchWait(context, state, parts.cluster, self._dispatcher, self.step)
        self._usage = ClusterUsage(parts.cluster)
        self._used: dict[str, Busy] = {}
        self._utilization = Utilization({})
        self._retention = Retention(context.store, context.config.retention)

    @classmethod
    async def open(cls, context: RunContext, state: RunState, parts: RunParts) -> Self:
        """Return the groups of a run, with its history of versions and its next numbers from the store."""
        store = context.store
        history = {**await store.read(queries.versions), state.version.id: state.version}
        return cls(
            context, state, parts, history, await store.read(queries.next_group), await store.read(queries.next_scoring)
        )

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Play groups inside the ``async with`` block."""
        context, state, dispatcher = self._context, self._state, self._dispatcher
        engines = self._parts.cluster.engines
        dispatcher.update = state.version.update
        dispatcher.breaker.has_succeeded = state.version.update > 0
        dispatcher.paused = False
        await dispatcher.resume()
        await dispatcher.fill()
        before = await engines.usage()
        self._utilization.restart(await self._usage.read())
        try:
            yield
            after = await engines.usage()
            context.metrics.write("engines", state.version.update, {name: after[name] - before[name] for name in after})
        finally:
            await dispatcher.cancel()
            await self._retention.finish()

    async def next_batch(self, since: float) -> list[ScoredGroup]:
        """Return groups to train on, or none if the run is to stop.

        Raises:
            TurnwiseError: no batch forms, or groups or engines keep failing.
        """
        return await self._batches.next_batch(since)

    def updating(self) -> AbstractAsyncContextManager[None]:
        """Keep transfers of weights to restarted engines away inside the ``async with`` block."""
        return self._parts.cluster.engines.training()

    async def publish(self, trained: UpdateResult) -> None:
        """Load the new weights into the engines before another group opens."""
        _, self._used = await asyncio.gather(self._publish(trained), self._usage.read())

    async def _publish(self, trained: UpdateResult) -> None:
        self._dispatcher.paused = True
        await self._parts.cluster.engines.publish(self._parts.weights, trained.version)
        failpoint("after_push")
        self._dispatcher.update = trained.update
        self._dispatcher.paused = False

    def count(self, trained: UpdateResult, seconds: float) -> None:
        """Add the busy shares of the run's parts to the metrics of an update."""
        learner_s = trained.metrics["assembly_s"] + trained.metrics["update_s"]
        trained.metrics.update(self._utilization.since_last(self._used, learner_s, seconds))

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Open no group inside the ``async with`` block."""
        self._dispatcher.paused = True
        yield
        self._dispatcher.paused = False

    def saved(self) -> None:
        """Begin to apply the retention policy."""
        self._retention.start()

    async def restart(self) -> None:
        """Leave the time since the last update out of the busy shares."""
        self._utilization.restart(await self._usage.read())

    async def refill(self) -> None:
        """Open as many groups as fit."""
        await self._dispatcher.fill()


class Retention:
    """Keeps the store within its retention policy in the background, one collection at a time.

    A failed collection is logged and does not end the run.
    """

    def __init__(self, store: RunStore, policy: RetentionPolicy) -> None:
        self._store = store
        self._policy = policy
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin a collection if the policy removes anything and none is under way."""
        if self._policy.prunes and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._collect())

    async def finish(self) -> None:
        """Wait until the collection under way has ended."""
        if self._task is not None:
            await self._task

    async def _collect(self) -> None:
        try:
            found = await self._store.collect(self._policy)
        except StoreError as error:
            LOG.warning("the retention policy was not applied, and is again after the next checkpoint: %s", error)
            return
        LOG.info(
            "retention: %d trajectories pruned, %d blobs deleted, %d bytes in use",
            found.pruned,
            found.swept.blobs,
            found.after.used,
        )
        if found.is_over or found.altered:
            LOG.warning(
                "retention: %d bytes are in use, and %d altered trajectories stayed; run `turnwise db check`, and "
                "lower `retention.keep_versions` or raise `retention.max_size` if the store needs too much",
                found.after.used,
                len(found.altered),
            )
