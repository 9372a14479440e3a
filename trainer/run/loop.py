"""The training loop: wait for a batch, train on it, publish the new version, checkpoint and evaluate when due."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from time import monotonic
from typing import Any

from ...errors import TurnwiseError
from ...store import queries
from ...store.schema import PACE
from ..context import RunContext
from ..evaluation.in_run import IN_TRAINING
from ..learner.update import UpdateResult, update_event
from ..telemetry.events import Note, UpdateDone
from ..telemetry.limits import NOTABLE_SHARE, warning
from ..telemetry.progress import reported
from .group_source import GroupSource
from .preparation import RunParts
from .state import RunState

MAX_STALE_BATCHES = 10
"""Consecutive batches without a fresh token within the staleness bound that end the run."""
OF_METRICS = ("limits", "reward_parts", "is_offline", "metrics")
"""Fields of an event that repeat metrics or the configuration."""
MAX_LEFT_OUT_BATCHES = 100
"""Consecutive batches that end the run if the replay buffer left out all of their groups, as a group filter does."""


class TrainingLoop:
    """Trains one run from its current version until its limit is reached, no batch is left or it is to stop."""

    def __init__(self, context: RunContext, state: RunState, parts: RunParts, source: GroupSource) -> None:
        self._context = context
        self._state = state
        self._parts = parts
        self._source = source
        self._empty = EmptyBatches()
        self._warned: set[str] = set()
        """The limits that were warned of."""

    async def train(self) -> None:
        """Update until the run ends, and save the last version.

        Raises:
            TurnwiseError: no batch forms, groups or engines keep failing, nothing of many batches can be trained on, or
                an update is not finite.
        """
        async with self._source.opened():
            await self._train()

    async def _train(self) -> None:
        state, source, step = self._state, self._source, self._source.step
        last = waiting = monotonic()
        while not await self._is_done():
            groups = await source.next_batch(waiting)
            if groups is None:
                break
            if not groups:
                state.trained_s += monotonic() - last
                last = monotonic()
                continue
            progress = self._context.config.lr_progress(state.version.update, state.trained_s)
            async with source.updating(), reported(self._note, partial(step.progress, state.version.update + 1)):
                trained = await step.update(groups, state.version, progress, monotonic() - waiting)
                if trained is not None:
                    state.current = step.history[trained.version]
                    await source.publish(trained)
            if trained is None:
                now = monotonic()
                state.trained_s += now - last
                last = now
                self._note(f"batch skipped: {step.skip_reason}")
                self._empty.add(step.skip_reason, left_out=step.skipped_by_buffer)
            else:
                now = monotonic()
                state.trained_s += now - last
                source.count(trained, now - last)
                await self._report(trained, now - last)
                last = now
                if await self._evaluate_and_save(trained.update):
                    await source.restart()
                    last = monotonic()
                self._empty.reset()
            await source.refill()
            waiting = monotonic()
        await self._save()

    async def _is_done(self) -> bool:
        """Return whether the limit of the run is reached, or the run is to stop."""
        done = self._context.config.progress(self._state.version.update, self._state.trained_s) >= 1.0
        return done or await self._state.must_stop(self._context)

    async def _evaluate_and_save(self, update: int) -> bool:
        """Evaluate and save a checkpoint where due, and return whether either was done."""
        config, state = self._context.config, self._state
        evaluator, name = self._parts.evaluator, f"{IN_TRAINING}{update}"
        evaluates = evaluator.is_due(update, state.trained_s)
        if evaluates:
            async with self._source.paused():
                await state.stop.cancel_on_request(evaluator.evaluate(name, update))
        saves = update % config.checkpoint.interval == 0 or (evaluates and evaluator.is_best(name))
        if saves:
            await self._save()
            self._source.saved()
        return evaluates or saves

    async def _save(self) -> None:
        await self._parts.checkpoints.save(self._state.version.id)

    async def _report(self, trained: UpdateResult, seconds: float) -> None:
        """Report an update that took ``seconds`` since the last one."""
        context = self._context
        groups, offline = await context.store.read(queries.active_groups), context.config.offline.run is not None
        event = update_event(trained, seconds, self._state.trained_s, groups, is_offline=offline)
        shown = {name: value for name, value in asdict(event).items() if name not in OF_METRICS}
        event = replace(event, metrics={**trained.metrics, **shown})
        context.metrics.write("update", trained.update, event.metrics)
        await context.store.add_metrics(PACE, trained.update, {"update_seconds": seconds} | pace_of(event.metrics))
        context.report(event)
        self._warn_of_limits(event)
        self._warn_of_unscored(event)

    def _warn_of_limits(self, event: UpdateDone) -> None:
        """Warn of each limit on tokens that cuts more than a tenth, once per process."""
        for limit, share in event.limits.items():
            if limit not in self._warned and (text := warning(limit, share, f"update {event.update}")):
                self._warned.add(limit)
                self._note(text)

    def _warn_of_unscored(self, event: UpdateDone) -> None:
        """Warn once per process if more than a tenth of the episodes have no score of a judge."""
        shares = [float(value) for name, value in event.metrics.items() if name.endswith(UNSCORED_FRACTION)]
        if (share := max(shares, default=0.0)) > NOTABLE_SHARE and UNSCORED_FRACTION not in self._warned:
            self._warned.add(UNSCORED_FRACTION)
            self._note(
                f"update {event.update}: a judge gave no score to {share:.0%} of the episodes "
                f"(`{UNSCORED_FRACTION}`): try its model and server; `turnwise runs logs` prints the reasons"
            )

    def _note(self, text: str) -> None:
        self._context.report(Note(text))


def pace_of(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rates and busy fractions of an update."""
    return {name: value for name, value in metrics.items() if name.endswith(("_per_s", "_busy_fraction"))}


UNSCORED_FRACTION = "unscored_fraction"
"""Name, or its end, of the metrics for the share of the episodes that a judge gave no score."""


class EmptyBatches:
    """The batches with nothing to train on since the last update."""

    def __init__(self) -> None:
        self._stale = 0
        self._left_out = 0

    def reset(self) -> None:
        """Start again after an update."""
        self._stale = self._left_out = 0

    def add(self, reason: str, *, left_out: bool) -> None:
        """Count a batch that was skipped.

        Args:
            left_out: whether the replay buffer left out all of its groups.

        Raises:
            TurnwiseError: it was the last of ``MAX_STALE_BATCHES`` or ``MAX_LEFT_OUT_BATCHES``.
        """
        self._left_out += left_out
        self._stale += not left_out
        if self._left_out >= MAX_LEFT_OUT_BATCHES:
            raise TurnwiseError(
                f"{self._left_out} consecutive batches had nothing to train on; the last: {reason}; if the policy "
                "fails every task, choose easier tasks or a longer horizon; if it solves every task, choose harder "
                "tasks; or change `replay_buffer`"
            )
        if self._stale >= MAX_STALE_BATCHES:
            raise TurnwiseError(f"{self._stale} consecutive batches had nothing to train on; the last: {reason}")
