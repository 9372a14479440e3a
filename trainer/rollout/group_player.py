"""Play one group to its end, in one or two stages, even if the worker that plays it dies."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ...agents.rollout.assignment import Assignment
from ...agents.rollout.control import Controller
from ...agents.rollout.group_runner import MAX_RETRIES
from ...agents.rollout.progress import Start
from ...base.rates import is_counted
from ...records import Group, Outcome, Status
from ...store.run_store import RunStore
from .worker_pool import WorkerLost, WorkerPool

MAX_WORKERS_PER_GROUP = 3
"""Workers that a group may use, one after the other; it fails when the last of them is lost."""
WORKER_GRACE_S = 60.0
"""Seconds beyond a member's timeout before its worker counts as lost."""
LATE_WRITE = "written by a worker after it was lost"

Grow: TypeAlias = Callable[[Group], Awaitable[Group]]
"""Called once, when every member of an open group has ended: returns the group with the size that it shall have."""


async def play_group(
    pool: WorkerPool,
    store: RunStore,
    group: Group,
    timeout_s: float,
    controller: Controller | None = None,
    grow: Grow | None = None,
    starts: Sequence[Start] = (),
) -> Sequence[Outcome]:
    """Play the members of an open group and return their outcomes.

    The members of a lost worker whose end depends on the policy are in the store and count. Its other members become
    ``env_error``, and another worker plays them again. A worker that counts as lost because it stopped answering may
    still write for a while. Therefore each worker numbers its attempts above those of all workers before it, and two
    workers never write to one trajectory.

    Args:
        timeout_s: limit for the play of one member, in either stage.
        controller: decides how many members to open and which of them play to their end; None to open the size of the
            group and to play every member to its end.
        grow: decides how many members a second stage adds; None to play one stage.
        starts: the points at which the first members begin. A member that another worker plays again begins with a
            reset, unless its start is stored.
    """
    play = _Play(pool, store, timeout_s, controller, dict(enumerate(starts)))
    await play.stage(group, group.size)
    if grow is not None and play.lost_workers < MAX_WORKERS_PER_GROUP:
        grown = await grow(group)
        if grown.size > group.size:
            await play.stage(grown, grown.size - group.size)
    return play.outcomes


@dataclass(slots=True)
class _Play:
    """One group that is being played: the outcomes of its members, and the workers lost so far."""

    pool: WorkerPool
    store: RunStore
    timeout_s: float
    controller: Controller | None
    starts: Mapping[int, Start]
    """The points at which members begin."""
    outcomes: list[Outcome] = field(default_factory=list)
    """The outcomes of the members of the stages before, and then of this one."""
    lost_workers: int = 0
    _next_member: int = 0

    async def stage(self, group: Group, wanted: int) -> None:
        """Play ``wanted`` new members of the group, and the further ones that the controller opens."""
        opened = self.controller.members(wanted) if self.controller else wanted
        left: Sequence[int] = range(self._next_member, self._next_member + opened)
        finished, failed = (
            _counted(self.outcomes),
            [outcome for outcome in self.outcomes if not is_counted(outcome.status)],
        )
        while True:
            first_attempt = self.lost_workers * (MAX_RETRIES + 1)
            members = [(member, first_attempt) for member in left]
            timeout_s = self.timeout_s + WORKER_GRACE_S
            try:
                assignment = Assignment(group, members, self.controller, finished, self.starts)
                played = await self.pool.play(assignment, timeout_s)
            except WorkerLost as error:
                self.lost_workers += 1
                self.starts = {member: start for member, start in self.starts.items() if start.is_stored}
                await self.store.cancel_trajectories(group.id, str(error), Status.ENV_ERROR)
                stored = await self.store.members(group.id)
                if self.lost_workers == MAX_WORKERS_PER_GROUP:
                    self._end(stored)
                    return
                finished = _counted(stored)
                done = {one.member for one in finished}
                left = [member for member in left if member not in done]
            else:
                if self.lost_workers:
                    await self.store.cancel_trajectories(group.id, LATE_WRITE, Status.ENV_ERROR)
                self._end([*failed, *finished, *played])
                return

    def _end(self, outcomes: Iterable[Outcome]) -> None:
        """Keep the outcomes, and number the members of the next stage above all of this one, branches included."""
        self.outcomes = list(outcomes)
        self._next_member = 1 + max((outcome.member for outcome in self.outcomes), default=-1)


def _counted(outcomes: Iterable[Outcome]) -> list[Outcome]:
    return [outcome for outcome in outcomes if is_counted(outcome.status)]
