"""The training loop: wait for a batch, train on it, publish the new version, checkpoint and evaluate when due.

The dispatcher runs in the same event loop. The two sides meet in the store's counts of groups, and in ``_publish``,
which delays new groups until the engines serve the new version.
"""

import asyncio
from time import monotonic
from typing import Self

from ...records import PolicyVersion
from ..cluster.usage import ClusterUsage
from ..context import RunContext
from ..failpoints import failpoint
from ..learner.update import UpdateResult, UpdateStep
from ..rollout.dispatcher import Dispatcher
from ..telemetry.utilization import Utilization
from .batch_wait import BatchWait
from .preparation import RunParts
from .retention import Retention
from .state import RunState
from .update_loop import UpdateLoop


class TrainingLoop(UpdateLoop):
    """Trains one run from its current version until its limit is reached or it is to stop."""

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
        super().__init__(context, state, parts, UpdateStep(context, parts.learner, history))
        self._dispatcher = Dispatcher(context, parts.cluster.workers, first_group, first_scoring)
        self._batches = BatchWait(context, state, parts.cluster, self._dispatcher, self._update_step)
        self._usage = ClusterUsage(parts.cluster)
        self._retention = Retention(context.store, context.config.retention)

    @classmethod
    async def create(cls, context: RunContext, state: RunState, parts: RunParts) -> Self:
        """Return the loop of a run, with its history of versions and its next numbers from the store."""
        history = {**await context.store.versions(), state.version.id: state.version}
        store = context.store
        return cls(context, state, parts, history, await store.next_group(), await store.next_scoring())

    async def train(self) -> None:
        """Update until the run's limit is reached or it is to stop, and save the last version.

        Raises:
            TurnwiseError: no batch forms, groups or engines keep failing, or an update is not finite.
        """
        context, state, dispatcher = self._context, self._state, self._dispatcher
        engines = self._parts.cluster.engines
        dispatcher.update = state.version.update
        dispatcher.breaker.has_succeeded = state.version.update > 0
        dispatcher.paused = False
        await dispatcher.resume()
        await dispatcher.fill()
        last = waiting = monotonic()
        before = await engines.usage()
        utilization = Utilization(await self._usage.read())
        try:
            while not await self.is_done():
                groups = await self._batches.next_batch(waiting)
                if not groups:
                    continue
                progress = context.config.lr_progress(state.version.update, state.trained_s)
                async with engines.training():
                    trained = await self._update_step.update(groups, state.version, progress, monotonic() - waiting)
                    if trained is not None:
                        _, usage = await asyncio.gather(self._publish(trained), self._usage.read())
                if trained is not None:
                    now = monotonic()
                    state.trained_s += now - last
                    learner_s = trained.metrics["assembly_s"] + trained.metrics["update_s"]
                    trained.metrics.update(utilization.since_last(usage, learner_s, now - last))
                    await self.report(trained, now - last)
                    last = now
                    if await self._evaluate_and_save(trained.update):
                        utilization.restart(await self._usage.read())
                        last = monotonic()
                self.count_batch(trained is not None)
                await dispatcher.fill()
                waiting = monotonic()
            after = await engines.usage()
            context.metrics.write("engines", state.version.update, {name: after[name] - before[name] for name in after})
        finally:
            await dispatcher.cancel()
            await self._retention.finish()

    async def _publish(self, trained: UpdateResult) -> None:
        """Load the new weights into the engines before another group opens."""
        self._dispatcher.paused = True
        self._state.current = self._update_step.history[trained.version]
        await self._parts.cluster.engines.publish(self._parts.weights, trained.version)
        failpoint("after_push")
        self._dispatcher.update = trained.update
        self._dispatcher.paused = False

    async def _evaluate_and_save(self, update: int) -> bool:
        """Evaluate and save a checkpoint where due, and return whether either was done."""
        config, parts, state = self._context.config, self._parts, self._state
        evaluates = config.evaluation.interval > 0 and update % config.evaluation.interval == 0
        if evaluates:
            self._dispatcher.paused = True
            await state.stop.cancel_on_request(parts.evaluator.evaluate(f"update {update}", update))
            self._dispatcher.paused = False
        saved = await self.save_if_due(update)
        if saved:
            self._retention.start()
        return saved or evaluates
