"""Play one group to its end, even if the worker that plays it dies."""

from collections.abc import Sequence

from ...agents.rollout.control import Controller
from ...agents.rollout.group_runner import MAX_RETRIES
from ...records import SCORED_STATUSES, Group, Outcome, Status
from ...store.run_store import RunStore
from .worker_pool import WorkerLost, WorkerPool

MAX_WORKERS_PER_GROUP = 3
"""Workers that a group may use, one after the other; it fails when the last of them is lost."""
WORKER_GRACE_S = 60.0
"""Seconds beyond a member's timeout before its worker counts as lost."""
LATE_WRITE = "written by a worker after it was lost"


async def play_group(
    pool: WorkerPool, store: RunStore, group: Group, timeout_s: float, controller: Controller | None = None
) -> Sequence[Outcome]:
    """Play the members of an open group and return their outcomes.

    The finished members of a lost worker are in the store and count. Its unfinished members become ``env_error``, and
    another worker plays them again. A worker that counts as lost because it stopped answering may still write for a
    while. Therefore each worker numbers its attempts above those of all workers before it, and two workers never write
    to one trajectory.

    Args:
        timeout_s: limit for the play of one member.
        controller: decides how many members to open and which of them play to their end; None to open the size of the
            group and to play every member to its end.
    """
    opened = controller.members(group.size) if controller else group.size
    members = [(member, 0) for member in range(opened)]
    finished: list[Outcome] = []
    for lost_workers in range(MAX_WORKERS_PER_GROUP):
        try:
            outcomes = [*finished, *await pool.play(group, members, timeout_s + WORKER_GRACE_S, controller, finished)]
        except WorkerLost as error:
            await store.cancel_trajectories(group.id, str(error), Status.ENV_ERROR)
            stored = await store.members(group.id)
            finished = [one for one in stored if one.status in SCORED_STATUSES]
            if lost_workers == MAX_WORKERS_PER_GROUP - 1:
                return stored
            done = {one.member for one in finished}
            first_attempt = (lost_workers + 1) * (MAX_RETRIES + 1)
            members = [(member, first_attempt) for member in range(opened) if member not in done]
        else:
            if lost_workers:
                await store.cancel_trajectories(group.id, LATE_WRITE, Status.ENV_ERROR)
            return outcomes
    return finished
