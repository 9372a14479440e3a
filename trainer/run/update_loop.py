"""The part of training that does not depend on the source of the groups: limit, reports and checkpoints."""

from dataclasses import asdict

from ..context import RunContext
from ..learner.update import UpdateResult, UpdateStep, update_event
from ..telemetry.events import Note
from .batch_wait import must_stop
from .empty_batches import EmptyBatches
from .preparation import RunParts
from .profile import RunProfile
from .state import RunState


class UpdateLoop:
    """The state of a run between its updates."""

    def __init__(self, context: RunContext, state: RunState, parts: RunParts, update_step: UpdateStep) -> None:
        self._context = context
        self._state = state
        self._parts = parts
        self._update_step = update_step
        self._empty_batches = EmptyBatches()
        self._profile: RunProfile | None = None
        if context.config.profile:
            self._profile = RunProfile(context.folder, parts.cluster, parts.learner, context.report)

    async def is_done(self) -> bool:
        """Return whether training ends here; if so, save the version."""
        version = self._state.version
        done = self._context.config.progress(version.update, self._state.trained_s) >= 1.0
        if done or await must_stop(self._context, self._state):
            await self.save()
            await self.stop_profile()
            return True
        return False

    async def stop_profile(self) -> None:
        """Write the profiles that are being made, if any."""
        if self._profile is not None:
            await self._profile.stop(self._state.version.update)

    def cancel_profile(self) -> None:
        """End the profile of this process, if one is being made."""
        if self._profile is not None:
            self._profile.cancel()

    async def save(self) -> None:
        """Save a checkpoint of the current version."""
        await self._parts.checkpoints.save(self._state.version.id)

    async def save_if_due(self, update: int) -> bool:
        """Save a checkpoint if one is due after ``update``, and return whether it was."""
        due = update % self._context.config.checkpoint.interval == 0
        if due:
            await self.save()
        return due

    def count_batch(self, trained: bool) -> None:
        """Report a batch with nothing to train on. Raises TurnwiseError if there were too many in a row."""
        if trained:
            self._empty_batches.reset()
            return
        step = self._update_step
        self._context.report(Note(f"batch skipped: {step.skip_reason}"))
        self._empty_batches.add(step.skip_reason, left_out=step.skipped_by_buffer)

    async def report(self, trained: UpdateResult, seconds: float) -> None:
        """Report an update that took ``seconds`` since the last one."""
        context = self._context
        event = update_event(trained, seconds, self._state.trained_s, await context.store.counts())
        context.metrics.write("update", trained.update, {**trained.metrics, **asdict(event)})
        context.report(event)
        if self._profile is not None:
            await self._profile.count(trained.update)
