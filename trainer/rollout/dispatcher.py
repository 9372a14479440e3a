"""Opens groups as capacity allows, has them played, closes them: the rollout side of a run.

Invariant: every group that is opened is closed exactly once, as ready, filtered or failed, or is still open when the
    process dies and then is closed by the resume. How many are under way is read from the store, never counted here.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence

from ...agents.rollout.episode import run_to_completion
from ...agents.rollout.group_runner import MAX_RETRIES
from ...errors import TurnwiseError
from ...records import SCORED_STATUSES, Group, GroupState, Outcome, Purpose, Status
from ...store.operations.group_states import RUN_ENDED
from ...store.run_store import RunStore
from ..algorithms.algorithm_set import AlgorithmSet
from ..algorithms.groups import GroupResult
from ..algorithms.random_streams import Streams
from ..config.schema import RunConfig
from ..learner.batch import SURVIVORS
from .admission import capacity
from .circuit_breaker import RolloutCircuitBreaker
from .worker_pool import WorkerLost, WorkerPool

LIVES = 3
"""Workers a group may lose before it fails."""
WORKER_GRACE_S = 60.0
"""Seconds beyond a member's deadline before its worker counts as lost."""
LATE = "written by a worker after it was lost"


class Dispatcher:
    """Groups under way of one run."""

    def __init__(
        self,
        config: RunConfig,
        algorithms: AlgorithmSet,
        workers: WorkerPool,
        store: RunStore,
        streams: Streams,
        first_group: int,
    ) -> None:
        self._config = config
        self._algorithms = algorithms
        self._workers = workers
        self._store = store
        self._task_stream = streams.of("task_sampler")
        self._prefix_stream = streams.of("prompt_prefix")
        self._tasks: set[asyncio.Task[None]] = set()
        self._open: set[str] = set()
        self.breaker = RolloutCircuitBreaker()
        self._opening = asyncio.Lock()
        self.next_group = first_group
        """Number of the next group; group ids are never used twice."""
        self.update = 0
        """Updates done: what the horizon schedule is asked with."""
        self.paused = True
        self._ended = False
        self.closed = asyncio.Event()
        """Set whenever a group has closed."""
        self.tally: Counter[GroupState] = Counter()
        """Groups closed so far, by the state they closed in."""
        self.filtered_in_a_row = 0
        """Groups filtered since the last one that was ready."""
        self.filter_reason = ""
        """Why the last filtered group was filtered."""
        self.failure: BaseException | None = None

    async def fill(self) -> int:
        """Open as many groups as admission allows now; how many that were."""
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
            room = self.breaker.allowed(room, len(self._open))
            groups = [self._draw() for _ in range(room)]
            await run_to_completion(self._begin(groups))
            for group in [] if self._ended else groups:
                task = asyncio.create_task(self._play(group))
                self._tasks.add(task)
                task.add_done_callback(self._done)
            return room

    async def _begin(self, groups: Sequence[Group]) -> None:
        """Open groups in the store; what is open there is known here, whatever is cancelled meanwhile."""
        await asyncio.gather(*(self._store.open_group(group) for group in groups))
        self._open.update(group.id for group in groups)

    async def cancel(self) -> None:
        """Give up every group under way; each is closed as failed, its running members as cancelled."""
        self.paused = self._ended = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._workers.cancel()
        abandoned = (self._store.abandon_group(group, RUN_ENDED) for group in list(self._open))
        await asyncio.gather(*abandoned, return_exceptions=True)
        await self._store.flush()

    def _draw(self) -> Group:
        algorithms = self._algorithms
        task = algorithms.task_sampler.propose(self._config.mixture, self._task_stream)
        number, self.next_group = self.next_group, self.next_group + 1
        return Group(
            id=f"{self._store.run}:{number}",
            run=self._store.run,
            task=task,
            horizon=algorithms.horizon.horizon(task, self.update),
            size=self._config.rollout.group_size,
            purpose=Purpose.TRAIN,
            prompt_prefix=algorithms.prompt_prefix.apply(task, self._prefix_stream),
        )

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failure = self.failure or error
        self.closed.set()

    async def _play(self, group: Group) -> None:
        outcomes = await play_out(self._workers, self._store, group, self._config.rollout.group_timeout_s)
        survivors = [one for one in outcomes if one.status in SCORED_STATUSES]
        state, reason = GroupState.READY, ""
        brief = GroupResult(group.id, group.task, group.horizon, survivors)
        self._algorithms.task_sampler.update(brief)
        if len(survivors) < SURVIVORS:
            errors = [f"{one.status}: {one.error}" for one in outcomes if one.status not in SCORED_STATUSES]
            state, reason = (
                GroupState.FAILED,
                f"{len(survivors)} of {group.size} members survived; {errors[-1] if errors else ''}",
            )
        else:
            reason = next((said for one in self._algorithms.group_filters if (said := one.reject(brief))), "")
            state = GroupState.FILTERED if reason else GroupState.READY
        await self._store.close_group(group.id, state, reason)
        self._open.discard(group.id)
        self.tally[state] += 1
        if state is GroupState.FILTERED:
            self.filtered_in_a_row += 1
            self.filter_reason = reason
        elif state is GroupState.READY:
            self.filtered_in_a_row = 0
        if state is GroupState.FAILED:
            self.breaker.record_failure(reason)
        else:
            self.breaker.record_success()
        if why := self.breaker.give_up_reason():
            raise TurnwiseError(why)
        await self.fill()


async def play_out(workers: WorkerPool, store: RunStore, group: Group, deadline: float) -> Sequence[Outcome]:
    """Have a group played to its end, on another worker where one dies.

    What a dead worker had finished is in the store and stands; what it was playing becomes ``env_error`` and is
    played again. A worker given up as silent may still write for a while, so each life counts its attempts from a
    number that no life before it reaches: two workers never write one trajectory.

    Args:
        deadline: seconds that one member may play.
    """
    todo = [(member, 0) for member in range(group.size)]
    kept: list[Outcome] = []
    for life in range(LIVES):
        try:
            outcomes = [*kept, *await workers.play(group, todo, deadline + WORKER_GRACE_S)]
        except WorkerLost as error:
            await store.cancel_trajectories(group.id, str(error), Status.ENV_ERROR)
            known = await store.members(group.id)
            kept = [one for one in known if one.status in SCORED_STATUSES]
            if life == LIVES - 1:
                return known
            done = {one.member for one in kept}
            first = (life + 1) * (MAX_RETRIES + 1)
            todo = [(member, first) for member in range(group.size) if member not in done]
        else:
            if life:
                await store.cancel_trajectories(group.id, LATE, Status.ENV_ERROR)
            return outcomes
    return kept
