"""Wait for the next batch of ready groups, and end the run if no batch can form."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from time import monotonic

from ...errors import TurnwiseError
from ...records import GroupState, ScoredGroup
from ...store import queries
from ..cluster.actors import Cluster
from ..context import RunContext
from ..learner.update import UpdateStep
from ..rollout.dispatcher import Dispatcher
from ..rollout.filtered import Filtered
from ..telemetry.events import Note
from .state import RunState

LOG_INTERVAL_S = 15.0
"""Seconds between two notes on the wait, and between two checks for progress."""
POLL_INTERVAL_S = 1.0
"""Seconds between two attempts to lease a batch if no group closes."""
MAX_FILTERED_BATCHES = 10
"""Consecutively filtered groups, in batches, that end the run if also no group becomes ready in time."""
BATCH_TIMEOUT_SLACK_S = 120.0
"""Slack added to two group timeouts; if no episode starts or ends for that long, or if every group is filtered for
that long, the run ends."""


class BatchWait:
    """Leases the next batch as soon as enough groups are ready, and logs the reason for the wait."""

    def __init__(
        self, context: RunContext, state: RunState, cluster: Cluster, dispatcher: Dispatcher, update_step: UpdateStep
    ) -> None:
        self._context = context
        self._state = state
        self._cluster = cluster
        self._dispatcher = dispatcher
        self._update_step = update_step
        self._timeout_s = 2 * context.config.rollout.group_timeout_s + BATCH_TIMEOUT_SLACK_S

    async def next_batch(self, since: float) -> list[ScoredGroup]:
        """Return groups to train on, or none if the run is to stop or its seconds are over.

        The wait is bounded by progress, not by time: it goes on while episodes start and end, groups are scored, and
        groups become ready.

        Args:
            since: when the wait began, on the monotonic clock.

        Raises:
            TurnwiseError: episodes no longer start or end, every group is filtered, or groups or engines keep failing.
        """
        dispatcher = self._dispatcher
        logged, deadline, ready_deadline = since, since + self._timeout_s, since + self._timeout_s
        progress: tuple[Mapping[str, int], int] = {}, 0
        before, filtered = Counter(dispatcher.tally), dict(dispatcher.filtered.by_reason)
        ready = before[GroupState.READY]
        while True:
            dispatcher.closed.clear()
            if failure := dispatcher.failure or self._cluster.engines.failure:
                raise failure
            if self._is_over(monotonic() - since) or await self._state.must_stop(self._context):
                return []
            if groups := await self._update_step.lease():
                return groups
            await dispatcher.fill()
            now = monotonic()
            if dispatcher.tally[GroupState.READY] > ready or dispatcher.breaker.is_open:
                ready, ready_deadline = dispatcher.tally[GroupState.READY], now + self._timeout_s
            if now > ready_deadline:
                self._check_filtered(filtered)
            if now - logged > LOG_INTERVAL_S:
                logged = now
                latest = await self._context.store.read(queries.status_counts), dispatcher.tally.total()
                # The circuit breaker bounds an outage.
                if latest != progress or dispatcher.breaker.is_open:
                    progress, deadline = latest, now + self._timeout_s
                await self._log_wait(now - since, dispatcher.tally - before, filtered)
            if now > deadline:
                await self._raise_no_progress()
            try:
                async with asyncio.timeout(POLL_INTERVAL_S):
                    await dispatcher.closed.wait()
            except TimeoutError:
                continue

    def _is_over(self, waited_s: float) -> bool:
        state = self._state
        return self._context.config.progress(state.version.update, state.trained_s + waited_s) >= 1.0

    def _check_filtered(self, before: Mapping[str, Filtered]) -> None:
        """Raise TurnwiseError if the group filters left nothing to train on for the whole timeout.

        Args:
            before: the groups that were filtered before the wait, by reason.
        """
        dispatcher = self._dispatcher
        limit = MAX_FILTERED_BATCHES * self._context.config.rollout.groups_per_batch
        if dispatcher.consecutive_filtered >= limit:
            raise TurnwiseError(
                f"no group of run `{self._context.name}` became ready within {self._timeout_s:.0f} s: the last "
                f"{dispatcher.consecutive_filtered} groups were all filtered; since then: "
                f"{dispatcher.filtered.text(before)}; if the policy fails every task, choose easier tasks or a longer "
                "horizon; if it solves every task, choose harder tasks; or change `group_filters`"
            )

    async def _raise_no_progress(self) -> None:
        running = (await self._context.store.read(queries.active_groups)).get(GroupState.OPEN, 0)
        raise TurnwiseError(
            f"no episode of run `{self._context.name}` started or ended within {self._timeout_s:.0f} s, with "
            f"{running} groups running: check the environments and the engines, or raise `rollout.group_timeout_s`"
        )

    async def _log_wait(self, seconds: float, closed: Counter[GroupState], filtered: Mapping[str, Filtered]) -> None:
        counts = await self._context.store.read(queries.active_groups)
        text = (
            f"the learner waits for groups, {seconds:.0f} s so far: {counts.get(GroupState.READY, 0)} ready, "
            f"{counts.get(GroupState.OPEN, 0)} running, {counts.get(GroupState.SCORING, 0)} being scored, "
            f"{self._dispatcher.filtered.text(filtered)}, "
            f"{closed[GroupState.FAILED]} failed"
        )
        breaker = self._dispatcher.breaker
        if breaker.is_open:
            text += (
                f"; circuit breaker open after {breaker.failures} consecutive failed groups, probing one group at a "
                f"time; last error: {breaker.last_error}"
            )
        self._context.report(Note(text))
