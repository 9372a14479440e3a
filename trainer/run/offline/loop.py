"""The training loop of an offline run: read a batch of stored groups, train on it, checkpoint when due."""

import asyncio
from time import monotonic
from typing import Self

from ....records import PolicyVersion
from ....store.database_errors import retried
from ...context import RunContext
from ...telemetry.events import Note
from ..preparation import RunParts
from ..state import RunState
from ..update_loop import UpdateLoop
from .batches import OfflineBatches
from .update import OfflineUpdateStep
from .versions import sampling_versions


class OfflineLoop(UpdateLoop):
    """Trains one run on the groups of another one, until no batch is left, its limit is reached or it is to stop."""

    def __init__(
        self,
        context: RunContext,
        state: RunState,
        parts: RunParts,
        update_step: OfflineUpdateStep,
        batches: OfflineBatches,
    ) -> None:
        super().__init__(context, state, parts, update_step)
        self._batches = batches

    @classmethod
    async def create(cls, context: RunContext, state: RunState, parts: RunParts) -> Self:
        """Return the loop of a run, which continues after the last group that its checkpoint observed.

        Raises:
            TurnwiseError: the groups of the other run do not suit this run.
        """
        batches = await OfflineBatches.open(context)
        behavior = await asyncio.to_thread(retried, lambda: _sampling_versions(context))
        history = {**await context.store.versions(), state.version.id: state.version}
        update_step = OfflineUpdateStep(context, parts.learner, history, behavior)
        return cls(context, state, parts, update_step, batches)

    async def train(self) -> None:
        """Update until the run ends, and save the last version.

        Raises:
            TurnwiseError: nothing of many batches can be trained on, or an update is not finite.
        """
        context, state, batches = self._context, self._state, self._batches
        last = monotonic()
        while not await self.is_done():
            waiting = monotonic()
            groups = await batches.next_batch()
            if not groups:
                await self.save()
                await self.stop_profile()
                self._report_end()
                return
            progress = context.config.lr_progress(state.version.update, state.trained_s)
            trained = await self._update_step.update(groups, state.version, progress, monotonic() - waiting)
            if trained is not None:
                state.current = self._update_step.history[trained.version]
                now = monotonic()
                state.trained_s += now - last
                await self.report(trained, now - last)
                last = now
                if await self.save_if_due(trained.update):
                    last = monotonic()
            self.count_batch(trained is not None)

    def _report_end(self) -> None:
        config, state = self._context.config, self._state
        self._context.report(
            Note(
                f"run {config.offline.run} has no further batch of {config.rollout.groups_per_batch} groups: training "
                f"ends after {state.version.update} updates; {self._batches.filtered} groups were filtered"
            )
        )


def _sampling_versions(context: RunContext) -> dict[int, PolicyVersion]:
    with context.database.read() as conn:
        return sampling_versions(conn, context.name)
