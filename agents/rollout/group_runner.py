"""Play the members of many groups at the same time in one asyncio loop: retries, timeouts, and a pool of environments.

* A member's time counts only while it holds a slot of its environment; the wait for a slot is free.
* A failed member is retried once within its group's timeout.
* At the timeout the member is cancelled. An outcome whose last write has already started is committed and counts.
* The next episode with the same environment key reuses an environment, unless its last episode failed. An environment
  that hangs is abandoned with its thread.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from time import monotonic

from ...envs.errors import EnvError
from ...envs.runner.env_thread import EnvThread
from ...records import SCORED_STATUSES, Group, Outcome, Source, Status, Task, Trajectory
from ...store.client import StoreClient
from ...store.trajectory_writer import TrajectoryWriter
from .episode import Controller, Player, Timeouts, play_episode, run_to_completion

MAX_RETRIES = 1
"""Retries of a failed member."""
CLOSE_TIMEOUT_MAX_S = 10.0
"""Upper bound on the seconds for closing an environment; they come on top of the group's timeout."""

PlayerFactory = Callable[[EnvThread, Group, Trajectory], "Player"]


class GroupRunner:
    """Plays groups; one instance per event loop."""

    def __init__(
        self,
        client: StoreClient,
        player: PlayerFactory,
        timeouts: Timeouts,
        concurrency: Mapping[str, int],
        controller: Controller,
        policy: str = "",
        source: Source = Source.POLICY,
    ) -> None:
        """``concurrency`` bounds the number of episodes per environment key; a key that is missing is unbounded."""
        self._client = client
        self._player = player
        self._timeouts = timeouts
        self._close_timeout_s = min(timeouts.step_s, CLOSE_TIMEOUT_MAX_S)
        self._controller = controller
        self._policy = policy
        self._source = source
        self._slots = {name: asyncio.Semaphore(count) for name, count in concurrency.items()}
        self._idle: dict[str, list[EnvThread]] = {}
        self._since: dict[tuple[str, int], float] = {}
        """Start time of each member that holds a slot, by group and member."""

    async def play(self, group: Group, members: Sequence[tuple[int, int]]) -> list[Outcome]:
        """Play ``(member, attempt)`` pairs of a group; return the outcome of the last attempt of each, even if it
        failed."""
        return list(await asyncio.gather(*(self._member(group, member, attempt) for member, attempt in members)))

    def slot_held_s(self, group: str) -> float:
        """Return the seconds for which the longest-running attempt of a group has held its slot; 0 if all of them
        wait."""
        now = monotonic()
        return max((now - since for (name, _), since in self._since.items() if name == group), default=0.0)

    async def close(self) -> None:
        """Close the idle environments."""
        env_threads = [env_thread for waiting in self._idle.values() for env_thread in waiting]
        self._idle.clear()
        await asyncio.gather(*(env_thread.close(self._close_timeout_s) for env_thread in env_threads))

    async def _member(self, group: Group, member: int, attempt: int) -> Outcome:
        last = attempt + MAX_RETRIES
        left = self._timeouts.group_s
        while True:
            # The timeouts of the members that hold a slot bound the wait for one.
            async with self._slots.get(env_key(group.task)) or nullcontext():
                since = self._since[group.id, member] = monotonic()
                try:
                    outcome = await self._attempt(group, member, attempt, left)
                finally:
                    del self._since[group.id, member]
                left -= monotonic() - since
            if outcome.status in SCORED_STATUSES or attempt >= last or left <= 0:
                return outcome
            attempt += 1

    async def _attempt(self, group: Group, member: int, attempt: int, seconds: float) -> Outcome:
        trajectory = Trajectory(
            id=f"{group.id}-{member}" + (f".{attempt}" if attempt else ""),
            run=group.run,
            group=group.id,
            member=member,
            attempt=attempt,
            source=self._source,
            policy=self._policy,
        )
        late = f"its group's timeout of {self._timeouts.group_s:g} s expired"
        outcome = Outcome(trajectory.id, member, attempt, Status.CANCELLED, 0.0, None, 0, 0, late)
        try:
            async with asyncio.timeout(seconds) as limit:
                outcome = await self._episode(group, trajectory)
        except TimeoutError:
            return outcome
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError
        if limit.expired() and outcome.status is Status.CANCELLED:
            return replace(outcome, error=late)
        return outcome

    async def _episode(self, group: Group, trajectory: Trajectory) -> Outcome:
        try:
            env_thread = await self._take(group.task)
        except EnvError as error:
            return await self._record_failed_start(trajectory, str(error))
        trajectory = replace(trajectory, deterministic=env_thread.deterministic)
        player: Player | None = None
        outcome: Outcome | None = None
        try:
            player = self._player(env_thread, group, trajectory)
            outcome = await play_episode(
                env_thread,
                player,
                group.task,
                group.horizon,
                trajectory,
                self._client,
                self._timeouts,
                self._controller,
            )
        finally:
            if player is not None:
                player.close()
            # A truncated environment still holds its sandbox, so close it instead of pooling it.
            reusable = {Status.COMPLETED} if env_thread.holds_sandbox else SCORED_STATUSES
            if outcome is not None and outcome.status in reusable:
                self._idle.setdefault(env_key(group.task), []).append(env_thread)
            else:
                await run_to_completion(env_thread.close(self._close_timeout_s))
        return outcome

    async def _record_failed_start(self, trajectory: Trajectory, error: str) -> Outcome:
        record = TrajectoryWriter(self._client, trajectory)
        record.start()
        await run_to_completion(record.finish(Status.ENV_ERROR, error=error))
        return Outcome(trajectory.id, trajectory.member, trajectory.attempt, Status.ENV_ERROR, 0.0, None, 0, 0, error)

    async def _take(self, task: Task) -> EnvThread:
        waiting = self._idle.get(env_key(task))
        if waiting:
            return waiting.pop()
        env_thread = EnvThread.of(task)
        await env_thread.make(self._timeouts.reset_s)
        return env_thread


def env_key(task: Task) -> str:
    """Return the key under which the task's environment is reused: its id and options."""
    return env_key_of(task.env_id, task.options)


def env_key_of(env_id: str, options: Mapping[str, object]) -> str:
    """Return the key of an environment id with options."""
    return f"{env_id} {json.dumps(dict(options), sort_keys=True)}" if options else env_id
