"""Re-execute a stored trajectory's actions in a fresh environment and compare the results with the stored ones.

* The comparison covers every observation hash, every reward (exactly: a deterministic environment computes the same
  float), the end of the episode, and the trajectory's summary columns.
* Texts are compared as the environment normalizes them, because the rest may differ between executions. The stored text
  must still have the stored hash.
* The store is checked first: an observation or token array that no longer has its hash was altered, and the step is
  named. The turns that a branch shares with its parent must be those of the parent.
* Only an environment whose last episode matched is used again. A difference that a used environment shows is never
  reported: the trajectory is executed again in a fresh one.
* A difference may be due to an upgrade of the environment: the report names the version that played, if another one is
  installed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from ...envs.errors import EnvError, UnknownEnvironment
from ...envs.runner.env_thread import EnvThread
from ...envs.runner.step_result import StepResult
from ...records import Status, Trajectory
from ...store.database import Database
from ...store.errors import Pruned, StepCorrupt
from ..rollout.group_runner import Environments
from .compare import CALL_TIMEOUT_S, StepVerdict, compare, compare_end, compare_with_parent, texts_of
from .stored import Stored, answered, load, missing_environment, not_executable, upgrade_of

SANDBOX = "sandbox"
"""Key in a trajectory's ``extras``: the facts of its sandbox, with its ``image`` and the image's ``digest``."""
Keep: TypeAlias = Callable[[str, int, bytes], None]
"""Receives each screenshot of a re-execution, a PNG file, with the trajectory's id and the number of turns so far."""
See: TypeAlias = Callable[[StepVerdict], None]
"""Receives the verdict on each step, and on the end, as soon as it is known."""
WINDOW = 4
"""Trajectories begun ahead of the oldest one that still plays, per place: a slow one does not keep the others idle."""


@dataclass(frozen=True, slots=True)
class Report:
    """The re-execution of one trajectory; the last of ``steps`` is the verdict on its end."""

    id: str
    """Id of the trajectory."""
    matches: bool
    message: str
    steps: list[StepVerdict] = field(default_factory=list)
    upgrade: str = ""
    """The environment versions that played and re-executed the trajectory; empty if they are equal, or if the
    trajectory has none."""
    divergence: int | None = None
    """Index of the first step that differs, as in ``StepVerdict.index``; None if all match or none was compared."""
    images: tuple[str, str] | None = None
    """Digests of the sandbox images that played and re-executed the trajectory; None if they are equal or not known."""
    missing: str = ""
    """Why its environment is not registered here; empty if it is."""

    @property
    def diff(self) -> str:
        """The diff of the first step that differs; empty if its observation does not."""
        return next((step.diff for step in self.steps if not step.matches), "")


async def reexecute(
    database: Database,
    trajectory_id: str,
    loading: AbstractAsyncContextManager[object] | None = None,
    environments: Environments | None = None,
    keep: Keep | None = None,
    see: See | None = None,
) -> Report:
    """Re-execute a stored trajectory and report the differences. A trajectory without steps never matches.

    Args:
        loading: held during the reads of the store, to bound the number of connections.
        environments: to use environments of earlier re-executions; by default, a fresh one is made.
        keep: receives the screenshots of an environment that has any.
        see: receives the verdicts of each execution, of which a used environment may need two.

    Raises:
        NotFound: the trajectory is not in the store.
    """
    try:
        async with loading or nullcontext():
            stored = await asyncio.to_thread(load, database, trajectory_id)
    except StepCorrupt as error:
        return _differing(trajectory_id, str(error), [StepVerdict(error.step, False, str(error))])
    except Pruned as error:
        return Report(trajectory_id, False, str(error))
    trajectory = stored.trajectory
    if why := not_executable(trajectory, stored.group.task.env_id, len(answered(trajectory))):
        return Report(trajectory_id, False, why)
    if stored.parent is not None and (wrong := compare_with_parent(trajectory, stored.parent)):
        return _differing(trajectory_id, f"step {wrong.index} differs: {wrong.differs}", [wrong])
    shared = environments or Environments()
    try:
        report, used = await _reported(stored, shared, keep, see)
        if used and not report.matches:
            report, _ = await _reported(stored, shared, keep, see, fresh=True)
    finally:
        if environments is None:
            await shared.close(CALL_TIMEOUT_S)
    return report


async def reexecute_many(
    database: Database, trajectories: Iterable[str], parallel: int, keep: Keep | None = None
) -> AsyncGenerator[Report]:
    """Re-execute trajectories, ``parallel`` at a time, and yield their reports in the given order.

    Raises:
        NotFound: a trajectory is not in the store; those that still play are cancelled.
    """
    places, loading, environments = asyncio.Semaphore(parallel), asyncio.Lock(), Environments()

    async def one(trajectory: str) -> Report:
        async with places:
            return await reexecute(database, trajectory, loading, environments, keep)

    waiting: deque[asyncio.Task[Report]] = deque()
    try:
        for trajectory in trajectories:
            waiting.append(asyncio.create_task(one(trajectory)))
            if len(waiting) == WINDOW * parallel:
                yield await waiting[0]
                waiting.popleft()
        while waiting:
            yield await waiting[0]
            waiting.popleft()
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await environments.close(CALL_TIMEOUT_S)


async def _reported(
    stored: Stored, environments: Environments, keep: Keep | None, see: See | None, *, fresh: bool = False
) -> tuple[Report, bool]:
    """Return the report on a trajectory, and whether its environment was used before."""
    trajectory, upgrade, used, reusable = stored.trajectory, "", False, False
    try:
        env_thread, used = await environments.take(stored.group.task, CALL_TIMEOUT_S, fresh=fresh)
        try:
            upgrade = upgrade_of(stored.group.task, trajectory, env_thread)
            steps, extras = await _execute(env_thread, stored, keep, see)
            # An episode that the environment did not end may still hold its sandbox.
            ended = trajectory.status is Status.COMPLETED or not env_thread.holds_sandbox
            reusable = ended and all(step.matches for step in steps)
        finally:
            if reusable:
                environments.keep(env_thread)
            else:
                await env_thread.close(CALL_TIMEOUT_S)
    except UnknownEnvironment as error:
        missing = missing_environment(stored.group.task, trajectory, str(error))
        return Report(trajectory.id, False, missing, missing=missing), used
    except EnvError as error:
        why = _with(upgrade, f"the environment could not be re-executed: {error}")
        return Report(trajectory.id, False, why, upgrade=upgrade), used
    images = _other_digests(trajectory.extras, extras)
    upgrade = "; ".join(filter(None, (upgrade, _other_image(trajectory.extras, extras))))
    wrong = next((step for step in steps if not step.matches), None)
    if wrong is not None:
        where = f"step {wrong.index}" if wrong.index < len(answered(trajectory)) else "the end"
        why = _with(upgrade, f"{where} differs: {wrong.differs}")
        return replace(_differing(trajectory.id, why, steps, upgrade), images=images), used
    return Report(trajectory.id, True, _with(upgrade, _matching(trajectory)), steps, upgrade, images=images), used


async def _execute(
    env_thread: EnvThread, stored: Stored, keep: Keep | None, see: See | None
) -> tuple[list[StepVerdict], dict[str, Any]]:
    """Return the verdicts on the steps and on the end, and the environment's new ``extras``."""
    task, trajectory = stored.group.task, stored.trajectory
    result = await env_thread.reset(task.seed, task.split, CALL_TIMEOUT_S)
    if keep is not None:
        await _keep(keep, trajectory.id, 0, env_thread, result)
    extras = dict(result.extras)
    verdicts: list[StepVerdict] = []
    for step in answered(trajectory):
        texts = await texts_of(env_thread, step.observation, result, has_images=bool(step.images))
        before, result = result, await env_thread.step(step.action, CALL_TIMEOUT_S)
        verdicts.append(compare(step, before, result, texts))
        if see is not None:
            see(verdicts[-1])
        extras.update(result.extras)
        if keep is not None:
            await _keep(keep, trajectory.id, step.index + 1, env_thread, result)
    texts = await texts_of(env_thread, stored.last, result, has_images=bool(trajectory.final_images))
    verdicts.append(compare_end(trajectory, result, texts))
    if see is not None:
        see(verdicts[-1])
    return verdicts, extras


async def _keep(keep: Keep, trajectory_id: str, turns: int, env_thread: EnvThread, result: StepResult) -> None:
    """Pass on the picture of a result: that of its observation, or else the environment's screenshot."""
    image = result.images[0] if result.images else await env_thread.screenshot(CALL_TIMEOUT_S)
    if image is not None:
        keep(trajectory_id, turns, image)


def _other_digests(then: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the digests of the images of the two sandboxes; None if they are equal, or if there was no sandbox."""
    before, after = then.get(SANDBOX), now.get(SANDBOX)
    if not (isinstance(before, dict) and isinstance(after, dict)) or before.get("digest") == after.get("digest"):
        return None
    return str(before.get("digest")), str(after.get("digest"))


def _other_image(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return how the images of the two sandboxes differ; empty if they do not, or if there was no sandbox."""
    if _other_digests(then, now) is None:
        return ""
    played, replayed = (f"{one[SANDBOX].get('image')} ({one[SANDBOX].get('digest')})" for one in (then, now))
    return f"played in the sandbox image {played}, replayed in {replayed}"


def _matching(trajectory: Trajectory) -> str:
    """Return the message of a trajectory that matches. A step on which the environment failed is not executed again:
    the failure may be of the machine."""
    count = len(answered(trajectory))
    message = f"all {count} steps match" if count > 1 else "its one step matches"
    if count < len(trajectory.steps):
        message = message.replace("its one step", "its first step")
        message += f"; on the action of step {count} the environment failed ({trajectory.status}): it is not executed"
    return message


def _differing(trajectory_id: str, message: str, steps: list[StepVerdict], upgrade: str = "") -> Report:
    first = next(step.index for step in steps if not step.matches)
    return Report(trajectory_id, False, message, steps, upgrade, first if first >= 0 else None)


def _with(upgrade: str, message: str) -> str:
    return f"{message} ({upgrade})" if upgrade else message
