"""The training loop: wait for a batch, learn from it, publish the version, save and evaluate where due.

The other side, the dispatcher, runs in the same event loop beside it; the two meet in the store's counts and in
``_publish``, which holds new groups back until the engines serve the new version.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from time import monotonic
from typing import TYPE_CHECKING, Self

from ...errors import TurnwiseError
from ...records import Group, GroupState, PolicyVersion
from ..failpoints import failpoint
from ..learner.update import Learning, Trained, update_done
from ..rollout.dispatcher import Dispatcher
from ..telemetry.events import Note

if TYPE_CHECKING:
    from .run import Run

NOTE_EVERY = 15.0
"""Seconds the learner waits before it says for what."""
IN_VAIN = 10
"""Batches in a row with nothing to train on before the run ends."""
FILTERED_BATCHES_MAX = 10
"""Batches' worth of groups that may be filtered in a row before the run ends."""
MARGIN = 120.0
"""Seconds beyond two group deadlines without the start or end of an episode before the run ends."""


class Loop:
    """Trains one run from its current version until its budget is spent or it is stopped."""

    def __init__(self, run: Run, history: dict[int, PolicyVersion], first_group: int) -> None:
        self._run = run
        self._in_vain = 0
        self._dispatcher = Dispatcher(run.config, run.config, run.cluster.workers, run.store, run.streams, first_group)
        self._learning = Learning(run.config, run.config, run.learner, run.store, history, run.streams)

    @classmethod
    async def of(cls, run: Run) -> Self:
        """Return the loop of a run, with the history of versions and the number of the next group from the store."""
        history = await run.store.versions()
        return cls(run, {**history, run.version.id: run.version}, await run.store.next_group())

    async def train(self) -> None:
        """Update until done.

        Raises:
            TurnwiseError: no batch comes together, groups or engines keep failing, or an update is not finite.
        """
        run, dispatcher = self._run, self._dispatcher
        dispatcher.update = run.version.update
        dispatcher.breaker.has_succeeded = run.version.update > 0
        dispatcher.paused = False
        await dispatcher.fill()
        last = waiting = monotonic()
        idle = await run.cluster.busy()
        try:
            while not await self._done():
                groups = await self._next_batch(waiting)
                if not groups:
                    continue
                trained = await self._learning.update(groups, run.version, run.decay(), monotonic() - waiting)
                if trained is not None:
                    await self._publish(trained)
                    now = monotonic()
                    run.trained_seconds += now - last
                    await self._report(trained, now - last)
                    last = now
                    if await self._pauses(trained.update):
                        last = monotonic()
                self._heed(trained is not None)
                await dispatcher.fill()
                waiting = monotonic()
            busy = await run.cluster.busy()
            run.metrics.write("engines", run.version.update, {name: busy[name] - idle[name] for name in busy})
        finally:
            await dispatcher.cancel()

    async def _next_batch(self, since: float) -> list[Group]:
        """Return groups to train on, or none if the run is to stop. Log the reason for the wait.

        The wait is bounded by progress, not by time: it goes on while episodes start and end.

        Raises:
            TurnwiseError: episodes no longer start or end, every group is filtered, or groups or engines keep failing.
        """
        run, dispatcher = self._run, self._dispatcher
        patience = 2 * run.config.rollout.group_timeout_s + MARGIN
        noted, deadline = since, since + patience
        episodes: Mapping[str, int] = {}
        before = Counter(dispatcher.tally)
        while True:
            dispatcher.closed.clear()
            if failure := dispatcher.failure or run.cluster.failure:
                raise failure
            if await run.asked_to_stop():
                return []
            if groups := await self._learning.lease():
                return groups
            self._check_filtered()
            await dispatcher.fill()
            now = monotonic()
            if now - noted > NOTE_EVERY:
                noted = now
                known = await run.store.statuses()
                if known != episodes or dispatcher.breaker.is_open:
                    # The circuit breaker bounds an outage.
                    episodes, deadline = known, now + patience
                await self._note_wait(now - since, dispatcher.tally - before)
            if now > deadline:
                running = (await run.store.counts()).get(GroupState.OPEN, 0)
                raise TurnwiseError(
                    f"no episode of run `{run.name}` started or ended within {patience:.0f} s, with "
                    f"{running} groups running: check the environments and the engines, or raise "
                    "`rollout.group_timeout_s`"
                )
            try:
                async with asyncio.timeout(1.0):
                    await dispatcher.closed.wait()
            except TimeoutError:
                continue

    def _check_filtered(self) -> None:
        """Raise TurnwiseError where the group filters leave nothing to train on."""
        dispatcher = self._dispatcher
        if dispatcher.filtered_in_a_row >= FILTERED_BATCHES_MAX * self._run.config.rollout.groups_per_batch:
            raise TurnwiseError(
                f"the last {dispatcher.filtered_in_a_row} groups were all filtered, the last because of "
                f"{dispatcher.filter_reason!r}: choose easier tasks or a longer horizon, or change `group_filters`"
            )

    async def _note_wait(self, seconds: float, closed: Counter[GroupState]) -> None:
        run = self._run
        counts = await run.store.counts()
        run.tell(
            Note(
                f"the learner waits for groups, {seconds:.0f} s so far: {counts.get(GroupState.READY, 0)} ready, "
                f"{counts.get(GroupState.OPEN, 0)} running, {closed[GroupState.FILTERED]} filtered, "
                f"{closed[GroupState.FAILED]} failed" + self._breaker_state()
            )
        )

    def _heed(self, trained: bool) -> None:
        """Tell of a batch that taught nothing; too many in a row end the run.

        Raises:
            TurnwiseError: that many were.
        """
        self._in_vain = 0 if trained else self._in_vain + 1
        if trained:
            return
        why = f"a batch taught nothing: {self._learning.nothing}"
        self._run.tell(Note(why))
        if self._in_vain >= IN_VAIN:
            raise TurnwiseError(f"{self._in_vain} batches in a row taught nothing; the last: {self._learning.nothing}")

    def _breaker_state(self) -> str:
        breaker = self._dispatcher.breaker
        if not breaker.is_open:
            return ""
        return (
            f"; circuit breaker open after {breaker.failures} consecutive failed groups, probing one group at a time; "
            f"last error: {breaker.last_error}"
        )

    async def _publish(self, trained: Trained) -> None:
        """The engines get the new weights before another group opens."""
        run = self._run
        self._dispatcher.paused = True
        run.version = self._learning.history[trained.version]
        await run.cluster.push(run.weights, trained.version)
        failpoint("after_push")
        self._dispatcher.update = trained.update
        self._dispatcher.paused = False

    async def _pauses(self, update: int) -> bool:
        """Evaluate and save where due; whether anything was."""
        run = self._run
        settings = run.config
        evaluates = settings.evaluation.interval > 0 and update % settings.evaluation.interval == 0
        saves = update % settings.checkpoint.interval == 0
        if evaluates:
            self._dispatcher.paused = True
            await run.unless_stopped(run.evaluator.evaluate(f"update {update}", update))
            self._dispatcher.paused = False
        if saves:
            await run.saver.save(run.version.id)
        return evaluates or saves

    async def _done(self) -> bool:
        run = self._run
        done = run.spent() >= 1.0 or await run.asked_to_stop()
        if done:
            await run.saver.save(run.version.id)
        return done

    async def _report(self, trained: Trained, seconds: float) -> None:
        run = self._run
        event = update_done(trained, seconds, run.trained_seconds, await run.store.counts())
        run.metrics.write("update", trained.update, {**trained.metrics, **asdict(event)})
        run.tell(event)
