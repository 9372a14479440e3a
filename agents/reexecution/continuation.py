"""Continue a stored trajectory from one of its steps: bring an environment there, and play on with another player."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import fsum

from ...envs.errors import EnvError
from ...envs.runner.env_thread import EnvThread
from ...envs.runner.step_result import StepResult
from ...errors import TurnwiseError
from ...records import Group, Message, Outcome, Status, Trajectory
from ...store.writing.client import StoreClient
from ...store.writing.trajectory_writer import TrajectoryWriter
from ..rollout.assignment import Assignment
from ..rollout.control import MemberView
from ..rollout.episode import Episode, record_failed_start
from ..rollout.group_runner import PlayerFactory
from ..rollout.gym_runner import images_by_hash
from ..rollout.player import Continuing, PastTurn, Player
from ..rollout.progress import BranchPoint, Progress
from ..rollout.runners import play_episode
from ..rollout.running_group import RunningGroup, RunningMember
from ..rollout.timeouts import Timeouts
from .compare import compare, texts_of
from .environments import CALL_TIMEOUT_S
from .stored import Stored, answered, not_executable, upgrade_of


class BranchRefused(TurnwiseError):
    """No episode can begin at this step of the trajectory."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """An episode that stands before a step of a stored trajectory."""

    result: StepResult
    """The observation that the next turn acts on."""
    progress: Progress
    """The turns so far, as a record of their own: without tokens."""
    turns: list[PastTurn]
    """The turns so far, for the history of a player."""


def check_branch(stored: Stored, at: int) -> None:
    """Check that an episode can begin at step ``at``, without executing anything.

    Raises:
        BranchRefused: it cannot.
    """
    trajectory, steps = stored.trajectory, answered(stored.trajectory)
    name = f"trajectory {trajectory.id} cannot be branched"
    if why := not_executable(trajectory, stored.group.task.env_id):
        raise BranchRefused(f"{name}: {why}")
    ended = bool(steps) and (steps[-1].terminated or steps[-1].truncated)
    last = len(steps) - ended
    if not 1 <= at <= last:
        end = ", and the environment ended the episode at the last one" if ended else ""
        remedy = f"choose 1 to {last}" if last > 1 else "choose 1" if last else "choose another trajectory"
        raise BranchRefused(f"{name} at step {at}: {len(steps)} of its steps can be executed{end}; {remedy}")


async def reach(env_thread: EnvThread, stored: Stored, at: int) -> Prefix:
    """Reset an environment and execute the first ``at`` actions of a trajectory, and compare every result.

    Raises:
        BranchRefused: a result differs from the stored one.
        EnvError: the environment failed.
    """
    task, trajectory = stored.group.task, stored.trajectory
    result = await env_thread.reset(task.seed, task.split, CALL_TIMEOUT_S)
    progress = Progress(extras=dict(result.extras))
    turns: list[PastTurn] = []
    for step in trajectory.steps[:at]:
        texts = await texts_of(env_thread, step.observation, result, has_images=bool(step.images))
        before, result = result, await env_thread.step(step.action, CALL_TIMEOUT_S)
        verdict = compare(step, before, result, texts)
        if not verdict.matches:
            upgrade = upgrade_of(task, trajectory, env_thread)
            raise BranchRefused(
                f"trajectory {trajectory.id} cannot be branched at step {at}: its prefix is not reproduced; step "
                f"{verdict.index} differs: {verdict.differs}" + (f" ({upgrade})" if upgrade else "")
            )
        images = images_by_hash(before)
        progress.images.update(images)
        progress.steps.append(replace(step, message=None, images=tuple(images)))
        progress.extras.update(result.extras)
        turns.append(PastTurn(before.text, before.images, step.action if result.patch is None else result.patch))
    progress.turns, progress.reward = at, fsum(step.reward for step in progress.steps)
    progress.success = result.success
    progress.final_hash, progress.final_text, progress.final_images = result.hash, result.text, result.images
    return Prefix(result, progress, turns)


async def continue_from(
    stored: Stored,
    at: int,
    group: Group,
    trajectory: Trajectory,
    create_player: PlayerFactory,
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
