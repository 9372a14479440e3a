"""Play the members of many groups at the same time in one asyncio loop: retries, timeouts, and a pool of environments.

* A member's time counts only while it holds a slot of its environment; the wait for a slot is free.
* A member that something else than the policy ended is retried once within its group's timeout, with a reset. After a
  failure of the policy, a second chance would raise the success rate of a policy that fails sometimes.
* At the timeout the member ends as a failure of the policy if it waited for an action or for the step of one, else as
  cancelled. An outcome whose last write has already started is committed and counts.
* The next episode with the same environment key reuses an environment, unless its last episode failed. An environment
  that hangs is abandoned with its thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from time import monotonic

from ...envs.errors import EnvError
from ...envs.runner.env_thread import EnvThread
from ...envs.tasks import env_key, env_key_of
from ...records import COUNTED_STATUSES, SCORED_STATUSES, Group, Outcome, Screenshots, Source, Status, Task, Trajectory
from ...store.writing.client import StoreClient
from ...store.writing.trajectory_writer import TrajectoryWriter
from .assignment import Assignment
from .episode import Episode
from .gym_runner import SNAPSHOT_S
from .player import Player, Restorable
from .progress import Progress
from .runners import play_episode, record_failed_start, run_to_completion
from .running_group import RunningGroup, RunningMember
from .timeouts import Timeouts

MAX_RETRIES = 1
"""Retries of a failed member."""
CLOSE_TIMEOUT_MAX_S = 10.0
"""Upper bound on the seconds for closing an environment; they come on top of the group's timeout."""


class Environments:
    """The idle environments of one event loop, by environment key; ``close`` them there."""

    def __init__(self) -> None:
        self._idle: dict[str, list[EnvThread]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def take(self, task: Task, timeout_s: float, *, fresh: bool = False) -> tuple[EnvThread, bool]:
        """Return an environment of a task that is made, and whether an episode used it before.

        Args:
            fresh: make one.

        Raises:
            EnvError: the environment could not be made.
        """
        waiting = self._idle.get(env_key_of(task.env_id, task.options))
        if waiting and not fresh:
            return waiting.pop(), True
        env_thread = EnvThread(task.env_id, task.options)
        await env_thread.make(timeout_s)
        return env_thread, False

    def keep(self, env_thread: EnvThread) -> None:
        """Keep an environment for the next episode."""
        self._idle.setdefault(env_key_of(env_thread.env_id, env_thread.options), []).append(env_thread)

    def close_later(self, env_thread: EnvThread, timeout_s: float) -> None:
        """Close an environment, which may be in a call, without a wait for it."""
        closing = asyncio.ensure_future(env_thread.close(timeout_s))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def close(self, timeout_s: float) -> None:
        """Close the idle environments, and wait for those that are being closed."""
        idle = [env_thread for waiting in self._idle.values() for env_thread in waiting]
        self._idle.clear()
        await asyncio.gather(*(env_thread.close(timeout_s) for env_thread in idle), *self._closing)


PlayerFactory = Callable[[EnvThread, Group, Trajectory], "Player"]


class GroupRunner:
    """Plays groups; one instance per event loop."""

    def __init__(
        self,
        client: StoreClient,
        player: PlayerFactory,
        timeouts: Timeouts,
        concurrency: Mapping[str, int],
        policy: str = "",
        source: Source = Source.POLICY,
        seed: int = 0,
        screenshots: Screenshots = "end",
    ) -> None:
        """``concurrency`` bounds the number of episodes per environment key; a key that is missing is unbounded.
        ``seed`` is that of the run; the streams of rollout controllers depend on it."""
        self._client = client
        self._player = player
        self._timeouts = timeouts
        self._close_timeout_s = min(timeouts.step_s, CLOSE_TIMEOUT_MAX_S)
        self._policy = policy
        self._source = source
        self._seed = seed
        self._screenshots = screenshots
        self._slots = {name: asyncio.Semaphore(count) for name, count in concurrency.items()}
        self._slot_count = sum(concurrency.values())
        self._environments = Environments()
        self._since: dict[tuple[str, int], float] = {}
        """Start time of each member that holds a slot, by group and member."""
        self._released_s = 0.0
        """Seconds for which members have held the slots that they returned."""

    async def play(self, assignment: Assignment) -> list[Outcome]:
        """Play the members of an assignment; return the outcome of the last attempt of each, even if it failed or was
        dropped, and those of their branches."""
        running = RunningGroup(assignment, self._seed)
        running.start(lambda member: asyncio.create_task(self._member(member)))
        return await _results(running)

    def slot_held_s(self, group: str) -> float:
        """Return the seconds for which the longest-running attempt of a group has held its slot; 0 if all of them
        wait."""
        now = monotonic()
        return max((now - since for (name, _), since in self._since.items() if name == group), default=0.0)

    def mean_slot_s(self) -> float:
        """Return the seconds so far for which the slots have been held, as a mean over them; 0 without bounds."""
        now = monotonic()
        held_s = self._released_s + sum(now - since for since in self._since.values())
        return held_s / self._slot_count if self._slot_count else 0.0

    async def close(self) -> None:
        """Close the environments, of which none may be playing."""
        await self._environments.close(self._close_timeout_s)

    async def _member(self, member: RunningMember) -> Outcome:
        try:
            outcome = await self._attempts(member)
        except asyncio.CancelledError:
            if not member.dropped or member.cancelled_from_outside():
                raise
            # It waited for a slot: no episode began, and the store has no trajectory of it.
            outcome = _cancelled(self._trajectory(member), member.dropped)
        parent, branched_at = member.view.parent, member.view.branched_at
        return replace(outcome, suspended=member.suspended, parent=parent, branched_at=branched_at)

    async def _attempts(self, member: RunningMember) -> Outcome:
        group, attempt = member.group.group, member.view.attempt
        last = attempt + (0 if member.is_branch else MAX_RETRIES)
        left = self._timeouts.group_s
        key = group.id, member.view.member
        while True:
            if not member.is_branch:
                member.begin(attempt)
            # The timeouts of the members that hold a slot bound the wait for one.
            async with self._slots.get(env_key(group.task)) or nullcontext():
                since = self._since[key] = monotonic()
                try:
                    outcome = await self._attempt(member, left)
                finally:
                    del self._since[key]
                    held_s = monotonic() - since
                    self._released_s += held_s
                left -= held_s
            if outcome.status in COUNTED_STATUSES or attempt >= last or left <= 0 or member.dropped:
                return outcome
            attempt += 1
            member.start = None

    def _trajectory(self, member: RunningMember) -> Trajectory:
        group = member.group.group
        number, attempt = member.view.member, member.view.attempt
        start = member.start if member.is_branch else None
        return Trajectory(
            id=f"{group.id}-{number}" + (f".{attempt}" if attempt else ""),
            run=group.run,
            group=group.id,
            member=number,
            attempt=attempt,
            source=self._source,
            policy=self._policy,
            branched_from=start.parent if start else None,
            branched_at=start.at if start else None,
        )

    async def _attempt(self, member: RunningMember, seconds: float) -> Outcome:
        trajectory = self._trajectory(member)
        late = f"its group's timeout of {self._timeouts.group_s:g} s expired"
        try:
            async with asyncio.timeout(seconds) as limit:
                member.limit = limit
                outcome = await self._episode(member, trajectory)
        except TimeoutError:
            member.end(Status.CANCELLED)
            return _cancelled(trajectory, late)
        if member.cancelled_from_outside():
            raise asyncio.CancelledError
        if limit.expired() and outcome.status is Status.CANCELLED:
            return replace(outcome, error=late)
        return outcome

    async def _episode(self, member: RunningMember, trajectory: Trajectory) -> Outcome:
        group = member.group.group
        # A thread that is cancelled while it makes an environment is lost, so a drop waits for it.
        member.interruptible = False
        try:
            # What a used environment shows would pass for a difference of a stored episode.
            fresh = member.start is not None and member.start.is_stored
            env_thread, _ = await self._environments.take(group.task, self._timeouts.reset_s, fresh=fresh)
        except EnvError as error:
            member.end(Status.ENV_ERROR)
            return await record_failed_start(self._client, trajectory, str(error))
        finally:
            member.interruptible = True
        if member.dropped:
            self._environments.keep(env_thread)
            return _cancelled(trajectory, member.dropped)
        trajectory = replace(trajectory, deterministic=env_thread.deterministic)
        player: Player | None = None
        outcome: Outcome | None = None
        try:
            player = self._player(env_thread, group, trajectory)
            member.play(branchable=env_thread.restorable and isinstance(player, Restorable))
            record = TrajectoryWriter(self._client, trajectory)
            episode = Episode(trajectory, member, env_thread, player, self._timeouts, record, self._screenshots)
            outcome = await play_episode(episode)
        finally:
            if player is not None:
                player.close()
            # A truncated environment still holds its sandbox, so close it instead of pooling it.
            reusable = {Status.COMPLETED} if env_thread.holds_sandbox else SCORED_STATUSES
            if outcome is not None and outcome.status in reusable and not env_thread.lost:
                self._environments.keep(env_thread)
            elif outcome is not None and member.dropped:
                longest_call_s = max(
                    self._timeouts.reset_s, self._timeouts.step_s + self._timeouts.scoring_s, SNAPSHOT_S
                )
                self._environments.close_later(env_thread, longest_call_s + self._close_timeout_s)
            else:
                await run_to_completion(env_thread.close(self._close_timeout_s))
        return outcome


def _cancelled(trajectory: Trajectory, error: str) -> Outcome:
    """Return the outcome of an attempt that has no record."""
    return Progress(Status.CANCELLED, error).outcome(trajectory)


async def _results(running: RunningGroup) -> list[Outcome]:
    """Wait for every member, branches that begin during the wait included, and return their outcomes.

    The first exception of a member is raised at once. A cancellation cancels all members and waits for them.
    """
    try:
        while waiting := [member.task for member in running.members.values() if member.task and not member.task.done()]:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
    except asyncio.CancelledError:
        tasks = [member.task for member in running.members.values() if member.task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
    return [member.task.result() for member in running.members.values() if member.task]
