"""One episode while it plays, and its end: every failure is a status, never a reward.

* Each turn is submitted to the store before the next one begins. The last write is awaited until it is durable; once it
  has started, it completes even past a timeout.
* If the store loses a turn, the run fails; that is not an episode status.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ...envs.errors import EnvError, EnvTimeout
from ...records import EndedBy, Group, Message, Outcome, Status, Step, Trajectory
from ...store.operations import Ending
from ...store.writing.trajectory_writer import TrajectoryWriter
from ..errors import EngineFailed, HorizonReached, ImagesUnsupported, PolicyFailed
from .control import CONTINUES, LOSS_WEIGHT
from .player import Player
from .progress import Progress, Start
from .running_group import RunningMember
from .timeouts import Timeouts

if TYPE_CHECKING:
    from ...envs.runner.env_thread import EnvThread
    from ...envs.runner.step_result import StepResult
    from ...store.writing.client import StoreClient

ENV_PACKAGE = "env_package"
"""Key in a trajectory's ``extras``: the package that provides the environment, with its version."""


class StepTimeout(EnvTimeout):
    """The step of an action exceeded its timeout; any other call that does is a failure of the environment."""


@dataclass(slots=True)
class Episode:
    """One attempt of a member: what plays, and what it has reached. A runner plays its turns."""

    group: Group
    """Task and horizon."""
    trajectory: Trajectory
    """The head of the record."""
    member: RunningMember
    """The controller's side: gets each turn and the end, and decides whether the episode continues."""
    env_thread: EnvThread
    player: Player
    timeouts: Timeouts
    record: TrajectoryWriter
    progress: Progress = field(default_factory=Progress)

    async def enter(self, start: Start) -> StepResult:
        """Begin at a point of another episode: record its turns, and return the result to act on.

        Raises:
            EnvError: the environment failed.
        """
        self.progress, result = await start.enter(self.env_thread, self.player, self.timeouts.reset_s)
        _set(self.progress.extras, CONTINUES, self.member.continues)
        self.record.append(self.progress.steps, self.progress.messages, self.progress.images)
        return result

    def add_turn(
        self, step: Step, messages: Sequence[Message], images: Mapping[str, bytes] | None = None, tokens: int = 0
    ) -> None:
        """Record a turn, and show it to the controller.

        Args:
            images: the images that the step names, by hash.
            tokens: tokens that were sampled in the turn.
        """
        images = images or {}
        self.record.append([step], messages, images)
        self.member.add_turn(step, messages)
        progress = self.progress
        if self.member.view.branchable:
            progress.steps.append(step)
            progress.messages.extend(messages)
            progress.images.update(images)
        progress.reward += step.reward
        progress.turns += 1
        progress.tokens += tokens


class EpisodeRunner(Protocol):
    """A way to play the turns of one episode. ``runners`` creates one per episode, and records the end."""

    async def run(self) -> Status:
        """Play the turns, and record each one (``Episode.add_turn``); return ``completed`` or ``truncated``.

        Raises:
            HorizonReached: a limit truncated the episode.
            EnvError, EngineFailed, PolicyFailed, TimeoutError: a part failed.
            CancelledError: the caller, or the controller, ended the episode.
        """


async def play_turns(episode: Episode, runner: EpisodeRunner) -> Outcome:
    """Begin the record of an episode, play its turns, record its end, and return its outcome.

    If the caller is cancelled, the episode is recorded as it is at that point and its outcome is returned; the request
    to cancel remains visible in ``asyncio.current_task().cancelling()``.

    Raises:
        TurnwiseError: the store lost a part of the episode, or the policy cannot play this environment at all. Every
            failure of the episode itself is a status instead.
    """
    member, record = episode.member, episode.record
    record.start()
    status, reason = Status.RUNNING, ""
    unplayable: ImagesUnsupported | None = None
    try:
        status = await runner.run()
    except HorizonReached as error:
        status, reason = Status.TRUNCATED, str(error)
        if error.messages:
            episode.progress.tokens += sum(int(sum(message.mask)) for message in error.messages)
            record.append([], error.messages)
    except StepTimeout as error:
        status, reason = Status.TIMEOUT, str(error)
    except EnvError as error:
        status, reason = Status.ENV_ERROR, str(error)
    except EngineFailed as error:
        status, reason = Status.ENGINE_ERROR, str(error)
    except (PolicyFailed, TimeoutError) as error:
        status, reason = Status.POLICY_ERROR, str(error) or f"no answer within {episode.timeouts.turn_s:g} s"
    except ImagesUnsupported as error:
        status, reason, unplayable = Status.POLICY_ERROR, f"{episode.group.task.env_id}: {error}", error
    except asyncio.CancelledError:
        status, reason = Status.CANCELLED, member.dropped or "cancelled while it was running"
    progress = episode.progress
    progress.status, progress.error = status, reason
    member.end(status)
    _set(progress.extras, CONTINUES, member.continues)
    _set(progress.extras, LOSS_WEIGHT, member.weight, absent=1.0)
    if episode.env_thread.package:
        progress.extras[ENV_PACKAGE] = episode.env_thread.package
    ended_by = EndedBy.EPISODE
    if status is Status.CANCELLED:
        ended_by = EndedBy.CONTROLLER if member.dropped else EndedBy.DRIVER
    await run_to_completion(_finish(record, progress, ended_by))
    if unplayable is not None:
        raise ImagesUnsupported(reason) from unplayable
    return progress.outcome(episode.trajectory)


async def record_failed_start(client: StoreClient, trajectory: Trajectory, error: str) -> Outcome:
    """Record an episode whose environment did not start, and return its outcome."""
    record, progress = TrajectoryWriter(client, trajectory), Progress(Status.ENV_ERROR, error)
    record.start()
    await run_to_completion(_finish(record, progress, EndedBy.EPISODE))
    return progress.outcome(trajectory)


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
