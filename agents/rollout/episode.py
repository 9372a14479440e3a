"""The episode loop: observe, act, step, record, until the environment ends the episode, a limit is reached, or a part
fails.

* Every wait has a timeout. A failure of the environment or the engine, or a timeout, ends the episode with a status,
  never with a reward.
* Malformed actions are handled by the environment, not here.
* Each turn is submitted to the store before the next one begins. The last write is awaited until it is durable; once it
  has started, it completes even past a timeout.
* If the store loses a turn, the run fails; that is not an episode status.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any

from ...envs.errors import EnvError, EnvTimeout
from ...errors import TurnwiseError
from ...records import EndedBy, Horizon, Outcome, Status, Step, Task, Trajectory
from ...store.operations import Ending
from ...store.writing.trajectory_writer import TrajectoryWriter
from ..errors import EngineFailed, HorizonReached, ImagesUnsupported, PolicyFailed
from .control import CONTINUES, LOSS_WEIGHT
from .player import Patchable, Player, Restorable
from .progress import BranchPoint, Progress
from .running_group import RunningMember
from .timeouts import Timeouts

if TYPE_CHECKING:
    from ...envs.runner.env_thread import EnvThread
    from ...envs.runner.step_result import StepResult
    from ...store.writing.client import StoreClient

PLAYER_GRACE_S = 1.0
"""Seconds added to the turn's timeout before a player is cancelled. A player bounds its own wait by that timeout, and
its error names the part that did not answer."""

FAIR_SHARE = 0.5
"""Share of the group's timeout that the turns of an episode need to have had for the policy to be charged with its
expiry: an earlier attempt, or the reset, may have taken the rest."""

SNAPSHOT_S = 30.0
"""Least timeout of a snapshot, in seconds. An environment bounds its own wait by less, and then has no snapshot. The
timeout of a step may be shorter: a snapshot that takes longer than a step is not a failure."""

ENV_PACKAGE = "env_package"
"""Key in a trajectory's ``extras``: the package that provides the environment, with its version."""


class StepTimeout(EnvTimeout):
    """The step of an action exceeded its timeout; any other call that does is a failure of the environment."""


async def play_episode(
    env_thread: EnvThread,
    player: Player,
    task: Task,
    horizon: Horizon,
    trajectory: Trajectory,
    client: StoreClient,
    timeouts: Timeouts,
    member: RunningMember,
) -> Outcome:
    """Play one episode, record it under ``trajectory.id``, and return its outcome.

    If the caller is cancelled, the episode is recorded as it is at that point and its outcome is returned; the request
    to cancel remains visible in ``asyncio.current_task().cancelling()``. ``member`` gets each turn and the end, and
    decides whether the episode continues. An episode that continues another one begins at ``member.start``, without a
    reset.

    Raises:
        TurnwiseError: the store lost a part of the episode, or the policy cannot play this environment at all. Every
            failure of the episode itself is a status instead.
    """
    record = TrajectoryWriter(client, trajectory)
    record.start()
    progress = member.start.progress.fork() if member.start else Progress()
    _set(progress.extras, CONTINUES, member.continues)
    unplayable: ImagesUnsupported | None = None
    try:
        await _turns(env_thread, player, task, horizon, trajectory.id, record, timeouts, member, progress)
    except HorizonReached as error:
        progress.status, progress.error = Status.TRUNCATED, str(error)
        if error.messages:
            progress.tokens += sum(int(sum(message.mask)) for message in error.messages)
            record.append([], error.messages)
    except StepTimeout as error:
        progress.status, progress.error = Status.TIMEOUT, str(error)
    except EnvError as error:
        progress.status, progress.error = Status.ENV_ERROR, str(error)
    except EngineFailed as error:
        progress.status, progress.error = Status.ENGINE_ERROR, str(error)
    except (PolicyFailed, TimeoutError) as error:
        progress.status, progress.error = Status.POLICY_ERROR, str(error) or f"no answer within {timeouts.turn_s:g} s"
    except ImagesUnsupported as error:
        progress.status, progress.error, unplayable = Status.POLICY_ERROR, f"{task.env_id}: {error}", error
    except asyncio.CancelledError:
        progress.status, progress.error = Status.CANCELLED, member.dropped or "cancelled while it was running"
    member.end(progress.status)
    _set(progress.extras, LOSS_WEIGHT, member.weight, absent=1.0)
    if env_thread.package:
        progress.extras[ENV_PACKAGE] = env_thread.package
    ended_by = EndedBy.EPISODE
    if progress.status is Status.CANCELLED:
        ended_by = EndedBy.CONTROLLER if member.dropped else EndedBy.DRIVER
    await run_to_completion(_finish(record, progress, ended_by))
    if unplayable is not None:
        raise ImagesUnsupported(progress.error) from unplayable
    return Outcome(
        trajectory.id,
        trajectory.member,
        trajectory.attempt,
        progress.status,
        progress.reward,
        progress.success,
        progress.turns,
        progress.tokens,
        progress.error,
    )


async def run_to_completion(work: Coroutine[Any, Any, None]) -> None:
    """Wait for ``work`` to complete, even if the caller is cancelled.

    ``work`` must be bounded by its timeouts. A cancellation during the wait is not raised, but remains counted by
    ``asyncio.current_task().cancelling()``.
    """
    task = asyncio.ensure_future(work)
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            continue
    task.result()


async def _finish(record: TrajectoryWriter, progress: Progress, ended_by: EndedBy) -> None:
    truncated = progress.status is Status.TRUNCATED
    ending = Ending(
        progress.status,
        reward=progress.reward,
        success=progress.success,
        error="" if truncated else progress.error,
        stop_reason=progress.error if truncated else "",
        ended_by=ended_by,
        final_observation_hash=progress.final_hash,
        final_observation=progress.final_text,
        extras=progress.extras,
    )
    await record.finish(ending, progress.final_images)


def _set(extras: dict[str, Any], key: str, value: object, absent: object = "") -> None:
    """Set ``key``, or remove it if ``value`` is ``absent``: a start may hold the value of another episode."""
    extras.pop(key, None)
    if value != absent:
        extras[key] = value


async def _turns(
    env_thread: EnvThread,
    player: Player,
    task: Task,
    horizon: Horizon,
    trajectory: str,
    record: TrajectoryWriter,
    timeouts: Timeouts,
    member: RunningMember,
    progress: Progress,
) -> None:
    if member.start is None:
        result = await env_thread.reset(task.seed, task.split, timeouts.reset_s)
        progress.extras.update(result.extras)
    else:
        record.append(progress.steps, progress.messages, progress.images)
        if member.start.snapshot is not None:
            await env_thread.restore(member.start.snapshot, timeouts.reset_s)
        result = member.start.result
    began = monotonic()
    for turn in range(progress.turns, horizon.max_turns):
        record.check()
        await record.wait_for_room()
        started = perf_counter()
        with _charged(member, PolicyFailed, "it waited for the policy's answer", began, timeouts):
            async with asyncio.timeout(timeouts.turn_s + PLAYER_GRACE_S):
                played = await player.act(result.text, result.images)
        model_ms = 1000 * (perf_counter() - started)
        before = result
        images = {hashlib.sha256(image).hexdigest(): image for image in before.images}
        step = Step(
            index=turn,
            observation=before.text,
            observation_hash=before.hash,
            action=played.text,
            reward=0.0,
            reward_parts={},
            terminated=False,
            truncated=False,
            action_valid=False,
            state_key=before.state_key,
            message=played.messages[-1].index if played.messages else None,
            model_ms=model_ms,
            env_ms=0.0,
            images=tuple(images),
            failed=True,
        )
        try:
            with _charged(member, StepTimeout, "the environment applied an action", began, timeouts):
                result = await env_thread.step(played.text, timeouts.step_s)
        except EnvError as error:
            record.append([step], played.messages, images)
            if isinstance(error, EnvTimeout):
                raise StepTimeout(str(error)) from error
            raise
        messages = played.messages
        if result.patch is not None and isinstance(player, Patchable):
            messages = [*messages, *player.patch(result.patch)]
        step = replace(
            step,
            reward=result.reward,
            reward_parts=result.reward_parts,
            terminated=result.terminated,
            truncated=result.truncated,
            action_valid=result.action_valid,
            message=messages[-1].index if messages else None,
            env_ms=result.ms,
            created_at=datetime.now(UTC),
            failed=False,
        )
        record.append([step], messages, images)
        member.add_turn(step, messages)
        if member.view.branchable:
            progress.steps.append(step)
            progress.messages.extend(messages)
            progress.images.update(images)
        progress.reward += result.reward
        progress.turns += 1
        progress.tokens += played.tokens
        progress.success = result.success
        progress.final_hash, progress.final_text, progress.final_images = result.hash, result.text, result.images
        progress.extras.update(result.extras)
        if result.terminated or result.truncated:
            progress.status = Status.COMPLETED if result.terminated else Status.TRUNCATED
            return
        if progress.turns == horizon.max_turns:
            break  # the controller is called about the end of the episode; a branch would have no turn left
        reason = member.stop_reason()
        if member.dropped:
            raise asyncio.CancelledError
        if children := member.take_children():
            point = await _branch_point(env_thread, player, trajectory, timeouts, member, progress, result)
            if point is None:
                member.forget_children(children)
            else:
                member.grow(children, point)
        if reason:
            raise HorizonReached(reason)
        if member.is_suspended():
            member.leave(await _branch_point(env_thread, player, trajectory, timeouts, member, progress, result))
            raise asyncio.CancelledError
    raise HorizonReached(f"{horizon.max_turns} turns played")


@contextmanager
def _charged(
    member: RunningMember, error: type[TurnwiseError], action: str, began: float, timeouts: Timeouts
) -> Iterator[None]:
    """Raise ``error`` if the group's timeout expires inside: the end of a slow episode depends on the policy.

    The policy is not charged if its turns, from ``began`` on, had less than ``FAIR_SHARE`` of the timeout, or if its
    engine or server does not respond. The cancellation then remains.

    Raises:
        EngineFailed: the cause of the cancellation.
    """
    try:
        yield
    except (asyncio.CancelledError, TimeoutError) as ended:
        late = member.is_late()
        if (late or isinstance(ended, TimeoutError)) and (failure := _engine_failure(ended)):
            raise failure from None
        if not late or monotonic() - began < FAIR_SHARE * timeouts.group_s:
            raise
        raise error(f"its group's timeout of {timeouts.group_s:g} s expired while {action}") from None


def _engine_failure(error: BaseException | None) -> EngineFailed | None:
    """Return the failure of the engine among the causes of a wait that was ended; None if the engine responds."""
    while error is not None and not isinstance(error, EngineFailed):
        error = error.__cause__
    return error


async def _branch_point(
    env_thread: EnvThread,
    player: Player,
    trajectory: str,
    timeouts: Timeouts,
    member: RunningMember,
    progress: Progress,
    result: StepResult,
) -> BranchPoint | None:
    """Return the point after the current turn; None if the environment has no snapshot of its state."""
    assert isinstance(player, Restorable)  # noqa: S101
    snapshot = await env_thread.snapshot(max(timeouts.step_s, SNAPSHOT_S))
    if snapshot is None:
        return None
    return BranchPoint(trajectory, snapshot, player.snapshot(), result, progress.fork(), member.view.turns)
