"""Open groups as capacity allows, play them, and close them.

Invariant: every group that opens closes exactly once, as ready, filtered or failed. If the process dies first, the
group is still open, and the resume closes it. The number of running groups is read from the store, never counted here.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence

from ...agents.rollout.episode import run_to_completion
from ...errors import TurnwiseError
from ...records import SCORED_STATUSES, Group, GroupState, Outcome, Purpose
from ...store.operations.group_states import RUN_ENDED
from ..algorithms.groups import GroupResult
from ..context import RunContext
from ..learner.batch import MIN_SURVIVORS
from .admission import capacity
from .circuit_breaker import RolloutCircuitBreaker
from .group_player import play_group
from .worker_pool import WorkerPool


class Dispatcher:
    """Keeps the training groups of one run in flight."""

    def __init__(self, context: RunContext, pool: WorkerPool, first_group: int) -> None:
        self._context = context
        self._config = context.config
        self._store = context.store
        self._pool = pool
        self.next_group = first_group
        """Number of the next group; group ids are never used twice."""
        self._task_stream = context.streams.of("task_sampler")
        self._prefix_stream = context.streams.of("prompt_prefix")
        self._tasks: set[asyncio.Task[None]] = set()
        self._open: set[str] = set()
        self._opening = asyncio.Lock()
        self._cancelled = False
        self.breaker = RolloutCircuitBreaker()
        self.update = 0
        """Updates done; the horizon schedule depends on it."""
        self.paused = True
        """Whether no new group may open."""
        self.closed = asyncio.Event()
        """Set whenever a group closes."""
        self.tally: Counter[GroupState] = Counter()
        """Groups closed so far, by the state in which they closed."""
        self.consecutive_filtered = 0
        """Groups filtered since the last one that was ready."""
        self.filter_reason = ""
        """The reason for which the last filtered group was filtered."""
        self.failure: BaseException | None = None
        """The first error of a group; the training loop raises it."""

    async def fill(self) -> int:
        """Open as many groups as admission and the circuit breaker allow now, and return how many."""
        async with self._opening:
            if self.paused:
                return 0
            rollout = self._config.rollout
            counts = await self._store.counts()
            if self.paused:
                return 0
            room = capacity(
                counts,
                max_concurrent_groups=rollout.max_concurrent_groups,
                max_staleness=rollout.max_staleness,
                groups_per_batch=rollout.groups_per_batch,
            )
            groups = [self._new_group() for _ in range(self.breaker.allowed(room, len(self._open)))]
            await run_to_completion(self._open_in_store(groups))
            for group in [] if self._cancelled else groups:
                task = asyncio.create_task(self._play(group))
                self._tasks.add(task)
                task.add_done_callback(self._on_done)
            return len(groups)

    async def cancel(self) -> None:
        """Close every running group as failed, and its running members as cancelled."""
        self.paused = self._cancelled = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._pool.cancel()
        abandoned = (self._store.abandon_group(group, RUN_ENDED) for group in list(self._open))
        await asyncio.gather(*abandoned, return_exceptions=True)
        await self._store.flush()

    async def _open_in_store(self, groups: Sequence[Group]) -> None:
        """Open groups in the store and track them. Runs to completion even if the caller is cancelled."""
        await asyncio.gather(*(self._store.open_group(group) for group in groups))
        self._open.update(group.id for group in groups)

    def _new_group(self) -> Group:
        config = self._config
        task = config.task_sampler.propose(config.mixture, self._task_stream)
        number, self.next_group = self.next_group, self.next_group + 1
        return Group(
            id=f"{self._context.name}:{number}",
            run=self._context.name,
            task=task,
            horizon=config.horizon.horizon(task, self.update),
            size=config.rollout.group_size,
            purpose=Purpose.TRAIN,
            prompt_prefix=config.prompt_prefix.apply(task, self._prefix_stream),
        )

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failure = self.failure or error
        self.closed.set()

    async def _play(self, group: Group) -> None:
        """Play a group and close it.

        Raises:
            TurnwiseError: the circuit breaker gives up.
        """
        outcomes = await play_group(self._pool, self._store, group, self._config.rollout.group_timeout_s)
        state, reason = self._closing_state(group, outcomes)
        await self._store.close_group(group.id, state, reason)
        self._open.discard(group.id)
        self._count(state, reason)
        if reason := self.breaker.give_up_reason():
            raise TurnwiseError(reason)
        await self.fill()

    def _closing_state(self, group: Group, outcomes: Sequence[Outcome]) -> tuple[GroupState, str]:
        """Return the state in which a group closes, and why it is not ready."""
        survivors = [one for one in outcomes if one.status in SCORED_STATUSES]
        result = GroupResult(group.id, group.task, group.horizon, survivors)
        self._config.task_sampler.update(result)
        if len(survivors) < MIN_SURVIVORS:
            errors = [f"{one.status}: {one.error}" for one in outcomes if one.status not in SCORED_STATUSES]
            last_error = errors[-1] if errors else ""
            return GroupState.FAILED, f"{len(survivors)} of {group.size} members survived; {last_error}"
        for group_filter in self._config.group_filters:
            if reason := group_filter.reject(result):
                return GroupState.FILTERED, reason
        return GroupState.READY, ""

    def _count(self, state: GroupState, reason: str) -> None:
        self.tally[state] += 1
        if state is GroupState.FAILED:
            self.breaker.record_failure(reason)
            return
        self.breaker.record_success()
        if state is GroupState.FILTERED:
            self.consecutive_filtered += 1
            self.filter_reason = reason
        else:
            self.consecutive_filtered = 0
