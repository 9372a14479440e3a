"""Play an episode by the runner that its environment names, and record its end: a failure is a status, never a reward.

* Each turn is submitted to the store before the next one begins. The last write is awaited until it is durable; once it
  has started, it completes even past a timeout.
* If the store loses a turn, the run fails; that is not an episode status.

To add a runner, write one file with a class that follows ``episode.EpisodeRunner``, and add it to ``RUNNERS``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from ...envs.errors import EnvError
from ...errors import TurnwiseError
from ...records import SCORED_STATUSES, EndedBy, Outcome, Status, Trajectory
from ...store.operations import Ending
from ...store.writing.trajectory_writer import TrajectoryWriter
from ..errors import EngineFailed, HorizonReached, ImagesUnsupported, PolicyFailed
from .control import CONTINUES, LOSS_WEIGHT
from .episode import Episode, EpisodeRunner, StepTimeout
from .gym_runner import GymRunner
from .progress import Progress
from .screenshots import take_screenshot

if TYPE_CHECKING:
    from ...store.writing.client import StoreClient

RUNNERS: dict[str, Callable[[Episode], EpisodeRunner]] = {"gym": GymRunner}
ENV_PACKAGE = "env_package"
"""Key in a trajectory's ``extras``: the package that provides the environment, with its version."""


async def play_episode(episode: Episode) -> Outcome:
    """Play an episode by the runner of its environment, record it from its start to its end, and return its outcome.

    If the caller is cancelled, the episode is recorded as it is at that point and its outcome is returned; the request
    to cancel remains visible in ``asyncio.current_task().cancelling()``.

    Raises:
        TurnwiseError: the store lost a part of the episode, the policy cannot play this environment at all, or it names
            no known runner. Every failure of the episode itself is a status instead.
    """
    name = episode.env_thread.runner
    if name not in RUNNERS:
        raise TurnwiseError(
            f"{episode.group.task.env_id} declares the runner {name!r}: `runner` must be one of {', '.join(RUNNERS)}"
        )
    member, record = episode.member, episode.record
    record.start()
    status, reason, ended_by = Status.RUNNING, "", EndedBy.EPISODE
    unplayable: ImagesUnsupported | None = None
    try:
        status = await RUNNERS[name](episode).run()
    except HorizonReached as error:
        status, reason, episode.progress.reached = Status.TRUNCATED, str(error), error.limit
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
        ended_by = EndedBy.CONTROLLER if member.dropped else EndedBy.DRIVER  # `member.end` may drop it: too late
    progress = episode.progress
    progress.status, progress.error = status, reason
    member.end(status)
    progress.set_extra(CONTINUES, member.continues)
    progress.set_extra(LOSS_WEIGHT, member.weight, absent=1.0)
    if episode.env_thread.package:
        progress.extras[ENV_PACKAGE] = episode.env_thread.package
    await run_to_completion(_finish(record, progress, ended_by, _screenshot(episode)))
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


async def _screenshot(episode: Episode) -> bytes | None:
    """Return the screenshot of the end, unless the episode failed or the run keeps none."""
    progress = episode.progress
    if episode.screenshots == "none" or progress.status not in SCORED_STATUSES or progress.last is None:
        return None
    timeout_s = episode.timeouts.step_s
    return await take_screenshot(episode.env_thread, progress.last, timeout_s, progress.extras, ended=True)


async def _finish(
    record: TrajectoryWriter, progress: Progress, ended_by: EndedBy, screenshot: Awaitable[bytes | None] | None = None
) -> None:
    kept = None if screenshot is None else await screenshot
    truncated, last = progress.status is Status.TRUNCATED, progress.last
    ending = Ending(
        progress.status,
        reward=progress.reward,
        success=progress.success,
        error="" if truncated else progress.error,
        stop_reason=progress.error if truncated else "",
        reached=progress.reached,
        ended_by=ended_by,
        final_observation_hash=last.hash if last else "",
        final_observation=last.text if last else None,
        extras=progress.extras,
    )
    await record.finish(ending, last.images if last else (), kept)
