"""Play a new episode from a step of a stored trajectory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...envs.errors import EnvError
from ...envs.runner.env_thread import EnvThread
from ...records import Group, Message, Outcome, Status, Trajectory
from ...store.writing.client import StoreClient
from ...store.writing.trajectory_writer import TrajectoryWriter
from ..rollout.assignment import Assignment
from ..rollout.control import MemberView
from ..rollout.episode import Episode, record_failed_start
from ..rollout.player import Continuing, Player
from ..rollout.progress import BranchPoint, Progress
from ..rollout.runners import play_episode
from ..rollout.running_group import RunningGroup, RunningMember
from ..rollout.timeouts import Timeouts
from .environments import CALL_TIMEOUT_S
from .prefix import BranchRefused, reach
from .replay import Stored


async def play_branch(
    stored: Stored,
    at: int,
    group: Group,
    trajectory: Trajectory,
    create_player: Callable[[EnvThread, Group, Trajectory], Player],
    client: StoreClient,
    timeouts: Timeouts,
) -> Outcome:
    """Re-execute the first ``at`` turns of a stored trajectory in a fresh environment, then play to the end.

    The record of the episode repeats these turns; their tokens are those that the new player reads. If the turns cannot
    be executed, the episode ends as ``env_error``.

    Args:
        trajectory: the record to begin, with ``branched_from`` and ``branched_at``.

    Raises:
        TurnwiseError: the store lost a part of the episode, or the policy cannot play this environment at all.
    """
    env_thread = EnvThread.of(group.task)
    player: Player | None = None
    try:
        await env_thread.make(timeouts.reset_s)
        prefix = await reach(env_thread, stored, at)
    except (EnvError, BranchRefused) as error:
        await env_thread.close(CALL_TIMEOUT_S)
        return await record_failed_start(client, trajectory, str(error))
    try:
        trajectory = replace(trajectory, deterministic=env_thread.deterministic)
        player = create_player(env_thread, group, trajectory)
        if isinstance(player, Continuing):
            _add_messages(prefix.progress, player.remember(prefix.turns))
        member = RunningMember(
            RunningGroup(Assignment(group, [])),
            MemberView(trajectory.member, 0, Status.RUNNING, 0.0, parent=stored.trajectory.member),
            BranchPoint(stored.trajectory.id, None, None, prefix.result, prefix.progress, ()),
        )
        record = TrajectoryWriter(client, trajectory)
        return await play_episode(Episode(group, trajectory, member, env_thread, player, timeouts, record))
    finally:
        if player is not None:
            player.close()
        await env_thread.close(CALL_TIMEOUT_S)


def _add_messages(progress: Progress, messages: Sequence[Sequence[Message]]) -> None:
    """Add the messages of each turn so far to its step."""
    for place, of_turn in enumerate(messages):
        if of_turn:
            progress.messages.extend(of_turn)
            progress.steps[place] = replace(progress.steps[place], message=of_turn[-1].index)
