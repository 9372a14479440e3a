"""Open groups as capacity allows, play them, close them, and have them scored.

Invariant: every group that opens closes exactly once and is then scored exactly once, as ready, filtered or failed. If
the process dies first, the resume closes a group that is still open, and scores one that is not scored yet. The number
of running groups is read from the store, never counted here.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from ...agents.errors import FIRST_OBSERVATION
from ...agents.rollout.runners import run_to_completion
from ...envs.runner.once import enumerated_seeds
from ...errors import TurnwiseError
from ...records import Group, GroupState, Outcome, Purpose, Task
from ...store import queries
from ...store.operations.group_states import RUN_ENDED
from ..algorithms.task_samplers.base import WeightedEnvironment
from ..context import RunContext
from ..failpoints import failpoint
from ..telemetry.events import Note
from .admission import capacity
from .circuit_breaker import RolloutCircuitBreaker
from .filtered import FilterTally
from .group_player import play_group
from .scoring import MIN_SURVIVORS, Scorer, Scoring, shape
from .suspended_episodes import Suspended, SuspendedEpisodes
from .worker_pool import WorkerPool

LOG = logging.getLogger(__name__)


class Dispatcher:
    """Keeps the training groups of one run in flight."""

    def __init__(self, context: RunContext, pool: WorkerPool, first_group: int, first_scoring: int) -> None:
        """``first_group`` and ``first_scoring`` are numbers that the store has not used for this run."""
        self._context = context
        self._config = context.config
        self._algorithms = context.algorithms
        self._store = context.store
        self._pool = pool
        self._scorer = Scorer(context, first_scoring)
        self.next_group = first_group
        """Number of the next group; group ids are never used twice."""
        self._next_draw = 0
        """Number of the next draw of the task sampler."""
        self._lost: deque[Group] = deque()
        """The groups that a resume gave up and whose draws have to be played."""
        self._mixture: list[WeightedEnvironment] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._open: set[str] = set()
        self._scoring: set[str] = set()
        self._suspended = SuspendedEpisodes(context.config.rollout.max_staleness)
        self._unbegun: set[str] = set()
        self._unlike: set[str] = set()
        """Environments with an episode that ended before its first turn."""
        self._opening = asyncio.Lock()
        self._cancelled = False
        self.breaker = RolloutCircuitBreaker()
        self.update = 0
        """Updates done; the horizon schedule depends on it."""
        self.paused = True
        """Whether no new group may open."""
        self.closed = asyncio.Event()
        """Set whenever a group is scored."""
        self.tally: Counter[GroupState] = Counter()
        """Groups scored so far, by the state that they got."""
        self.consecutive_filtered = 0
        """Groups filtered since the last one that was ready."""
        self.filtered = FilterTally()
        """The groups filtered so far, by reason."""
        self.failure: BaseException | None = None
        """The first error of a group; the training loop raises it."""

    async def fill(self) -> int:
        """Open as many groups as admission and the circuit breaker allow now, and return how many."""
        async with self._opening:
            if self.paused:
                return 0
            rollout = self._config.rollout
            mixture = await self._enumerated()
            counts = await self._store.read(queries.active_groups)
            if self.paused:
                return 0
            room = capacity(
                counts,
                max_concurrent_groups=rollout.max_concurrent_groups,
                max_staleness=rollout.max_staleness,
                groups_per_batch=rollout.groups_per_batch,
            )
            allowed = self.breaker.allowed(room, len(self._open | self._scoring))
            groups = [self._new_group(mixture) for _ in range(allowed)]
            await run_to_completion(self._open_in_store([group for group, _ in groups]))
            for group, continued in [] if self._cancelled else groups:
                self._start(self._play(group, continued))
            return len(groups)

    async def resume(self) -> None:
        """Continue where an earlier process ended, at the moment of the store: begin to score the groups that it closed
        and did not score, take the components through the draws since the checkpoint, and play lost groups again.
        """
        self._next_draw = await self._store.read(queries.next_draw)
        self._lost.extend(await self._store.read(queries.lost_draws))
        mixture = await self._enumerated()
        for draw in range(self._algorithms.drawn, self._next_draw):
            self._choose(mixture, draw)
        for group in await self._store.read(queries.unscored_groups):
            self._scoring.add(group)
            self._start(self._score(group))

    async def cancel(self) -> None:
        """Close every running group as failed, and its running members as cancelled. A group that waits for a reward
        shaper stays unscored; a resume scores it.
        """
        self.paused = self._cancelled = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._pool.cancel()
        abandoned = [self._store.abandon_group(group, RUN_ENDED) for group in self._open]
        for error in await asyncio.gather(*abandoned, return_exceptions=True):
            if error is not None:
                LOG.warning("a group was left open; a resume closes it", exc_info=error)
        await self._store.flush()

    async def _open_in_store(self, groups: Sequence[Group]) -> None:
        """Open groups in the store and track them. Runs to completion even if the caller is cancelled."""
        await asyncio.gather(*(self._store.open_group(group) for group in groups))
        self._open.update(group.id for group in groups)

    async def _enumerated(self) -> Sequence[WeightedEnvironment]:
        """Return the mixture of environments with their tasks, where they enumerate them."""
        if self._mixture is None:
            self._mixture = await asyncio.to_thread(
                lambda: [replace(one, seeds=enumerated_seeds(one.id, one.options)) for one in self._config.mixture]
            )
        return self._mixture

    def _new_group(self, mixture: Sequence[WeightedEnvironment]) -> tuple[Group, Sequence[Suspended]]:
        """Return a group of the task of the oldest suspended episode, or else of the first lost group, or else of the
        task sampler's, and the suspended episodes that its members continue."""
        config, algorithms, draw = self._config, self._algorithms, None
        if (task := self._suspended.next_task(self.update)) is not None:
            prompt_prefix = self._prefix(task, self._context.streams.of("prompt_prefix"))
        elif self._lost:
            lost = self._lost.popleft()
            task, prompt_prefix, draw = lost.task, lost.prompt_prefix, lost.draw
        else:
            draw, self._next_draw = self._next_draw, self._next_draw + 1
            task, prompt_prefix = self._choose(mixture, draw)
        with algorithms.horizon.calling("horizon"):
            horizon = algorithms.horizon.horizon(task, self.update)
        number, self.next_group = self.next_group, self.next_group + 1
        group = Group(
            id=f"{self._context.name}:{number}",
            run=self._context.name,
            task=task,
            horizon=horizon,
            size=algorithms.group_size.checked_size(task, config.rollout.group_size),
            purpose=Purpose.TRAIN,
            prompt_prefix=prompt_prefix,
            draw=draw,
        )
        return group, self._suspended.take(group)

    def _choose(self, mixture: Sequence[WeightedEnvironment], draw: int) -> tuple[Task, str]:
        """Return the task and the prompt prefix of one draw."""
        algorithms, streams = self._algorithms, self._context.streams
        with algorithms.task_sampler.calling("propose"):
            task = algorithms.task_sampler.propose(mixture, streams.of_draw("task_sampler", draw))
        prompt_prefix = self._prefix(task, streams.of_draw("prompt_prefix", draw))
        algorithms.count_draw(draw)
        return task, prompt_prefix

    def _prefix(self, task: Task, stream: Random) -> str:
        with self._algorithms.prompt_prefix.calling("apply"):
            return self._algorithms.prompt_prefix.apply(task, stream)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failure = self.failure or error
        self.closed.set()

    async def _play(self, group: Group, continued: Sequence[Suspended]) -> None:
        """Play a group, keep the episodes that it suspended, close it, and have it scored.

        Raises:
            TurnwiseError: the circuit breaker gives up, or the group cannot be scored.
        """
        algorithms = self._algorithms
        grow = self._grow if algorithms.group_size.has_second_stage else None
        timeout_s, opened = self._config.rollout.group_timeout_s, self.update
        starts = [one.point for one in continued]
        outcomes = await play_group(self._pool, self._store, group, timeout_s, algorithms.rollout_control, grow, starts)
        self._note_unbegun(group, outcomes)
        self._suspended.add(group, [outcome.suspended for outcome in outcomes if outcome.suspended], opened, continued)
        await run_to_completion(self._close(group.id))
        failpoint("group_closed")
        if not algorithms.rewards:
            # Nothing waits for a judge, so the scoring is bounded and completes even if the run ends.
            await run_to_completion(self._score(group.id))
        elif not self._cancelled:
            await self.fill()
            await self._score(group.id)

    def _note_unbegun(self, group: Group, outcomes: Sequence[Outcome]) -> None:
        """Report, once per environment, that episodes end before their first turn because the prompt does not fit."""
        reasons = [outcome.error for outcome in outcomes if outcome.error.startswith(FIRST_OBSERVATION)]
        if reasons and group.task.env_id not in self._unbegun:
            self._unbegun.add(group.task.env_id)
            task = f"{group.task.env_id}, seed {group.task.seed}"
            advice = "such episodes have no turn; raise `horizon.max_context`, or shorten the observation"
            self._context.report(Note(f"{task}: {reasons[0]}: {advice}"))

    def _note_unlike(self, group: Group) -> None:
        """Report, once per environment, that the members of a group began with different observations."""
        first = {one.steps[0].observation_hash for one in group.trajectories if one.steps}
        if len(first) > 1 and (env_id := group.task.env_id) not in self._unlike:
            self._unlike.add(env_id)
            found = f"{env_id}, seed {group.task.seed}: {len(group.trajectories)} episodes of one group began with "
            why = f"{len(first)} different observations, as if `reset` ignored its seed: their comparison means nothing"
            self._context.report(Note(f"warning: {found}{why}; run `turnwise envs check {env_id}`"))

    async def _grow(self, group: Group) -> Group:
        """Return a group with its size after the second stage; that size is in the store before a member plays.

        The component reads the rewards of the environment. The reward shapers are called once, with all members of both
        stages, so a judge scores each episode once. A group with too few scored members fails, so it gets no second
        stage.
        """
        sizes = self._algorithms.group_size
        (loaded,) = await self._store.load([group.id], texts=sizes.needs_texts)
        scored, _ = shape(loaded, ())
        larger = group
        if len(scored.group.trajectories) >= MIN_SURVIVORS:
            larger = replace(group, size=group.size + sizes.checked_additional(scored))
        if larger.size > group.size:
            await run_to_completion(self._store.grow_group(group.id, larger.size))
        if self._cancelled:
            raise asyncio.CancelledError
        return larger

    async def _close(self, group: str) -> None:
        await self._store.close_group(group, GroupState.SCORING)
        self._open.discard(group)
        self._scoring.add(group)

    async def _score(self, group: str) -> None:
        """Have a closed group scored, count it, and open further groups.

        Raises:
            TurnwiseError: the circuit breaker gives up, or the group cannot be scored.
        """
        scoring = await self._scorer.score(group)
        self._scoring.discard(group)
        self._count(scoring)
        self._note_unlike(scoring.scored.group)
        if reason := self.breaker.give_up_reason():
            raise TurnwiseError(reason)
        await self.fill()

    def _count(self, scoring: Scoring) -> None:
        self.tally[scoring.state] += 1
        if scoring.state is GroupState.FAILED:
            self.breaker.record_failure(scoring.reason)
            return
        self.breaker.record_success()
        if scoring.state is GroupState.FILTERED:
            self.consecutive_filtered += 1
            self.filtered.add(scoring.reason, scoring.scored)
        else:
            self.consecutive_filtered = 0
