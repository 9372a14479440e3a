"""Re-execute a stored trajectory's actions in a fresh environment and compare the results with the stored ones.

* The comparison covers every observation hash, every reward (exactly: a deterministic environment computes the same
  float), the end of the episode, and the trajectory's summary columns.
* Texts are compared as the environment normalizes them, because the rest may differ between executions. The stored text
  must still have the stored hash.
* The store is checked first: an observation or token array that no longer has its hash was altered, and the step is
  named.
* A difference may be due to an upgrade of the environment: the report names the version that played, if another one is
  installed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from math import fsum, isclose

from ..envs.errors import EnvError
from ..envs.runner.env_thread import EnvThread
from ..envs.runner.observations import observation_hash
from ..envs.runner.step_result import StepResult
from ..envs.tasks import env_version
from ..records import SCORED_STATUSES, Group, Status, Step, Task, Trajectory
from ..store import queries
from ..store.database import Database, open_database
from ..store.errors import StepCorrupt
from .rollout.episode import ENV_PACKAGE

CALL_TIMEOUT_S = 60.0
"""Timeout of each call to the environment."""
REWARD_TOLERANCE = 1e-9
"""Tolerance of the sum of the rewards, relative and absolute."""


@dataclass(frozen=True, slots=True)
class StepVerdict:
    """The result of re-executing one step, or of comparing the end: the last observation and the summary columns.

    ``index`` is the step's index; for the end, it equals the number of steps.
    """

    index: int
    matches: bool
    differs: str = ""
    """The first difference: the stored and the new value, as text."""


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """The re-execution of one trajectory; the last of ``steps`` is the verdict on its end."""

    id: str
    """Id of the trajectory."""
    matches: bool
    message: str
    steps: list[StepVerdict] = field(default_factory=list)
    upgrade: str = ""
    """The environment versions that played and re-executed the trajectory; empty if they are equal, or if the
    trajectory has none."""


def replay(store_url: str, trajectory_id: str) -> ReplayReport:
    """Re-execute a stored trajectory and report the differences. A trajectory without steps never matches.

    Raises:
        NotFound: the trajectory or the store does not exist.
    """
    with closing(open_database(store_url)) as database:
        return asyncio.run(replay_stored(database, trajectory_id))


async def replay_stored(database: Database, trajectory_id: str) -> ReplayReport:
    """Re-execute a stored trajectory as ``replay`` does, on an open store and inside an event loop."""
    try:
        group, trajectory, last = await asyncio.to_thread(_load, database, trajectory_id)
    except StepCorrupt as error:
        return ReplayReport(trajectory_id, False, str(error), [StepVerdict(error.step, False, str(error))])
    if trajectory.status is Status.RUNNING:
        return ReplayReport(trajectory_id, False, "it is still running")
    if not trajectory.steps:
        why = f"nothing to re-execute: the episode ended as {trajectory.status} before its first step"
        return ReplayReport(trajectory_id, False, why)
    if not trajectory.deterministic:
        return ReplayReport(trajectory_id, False, f"{group.task.env_id} does not declare itself deterministic")
    env_thread = EnvThread.of(group.task)
    upgrade = ""
    try:
        await env_thread.make(CALL_TIMEOUT_S)
        upgrade = _upgrade(group.task, str(trajectory.extras.get(ENV_PACKAGE, "")), env_thread.package)
        steps = await _execute(env_thread, group, trajectory, last)
    except EnvError as error:
        why = _with(upgrade, f"the environment could not be re-executed: {error}")
        return ReplayReport(trajectory_id, False, why, upgrade=upgrade)
    finally:
        await env_thread.close(CALL_TIMEOUT_S)
    wrong = next((one for one in steps if not one.matches), None)
    if wrong is not None:
        where = f"step {wrong.index}" if wrong.index < len(trajectory.steps) else "the end"
        return ReplayReport(trajectory_id, False, _with(upgrade, f"{where} differs: {wrong.differs}"), steps, upgrade)
    count = len(trajectory.steps)
    message = f"all {count} steps match" if count > 1 else "its one step matches"
    return ReplayReport(trajectory_id, True, _with(upgrade, message), steps, upgrade)


def _load(database: Database, trajectory_id: str) -> tuple[Group, Trajectory, str | None]:
    """Return the group of a trajectory, the trajectory, and the text of its final observation."""
    with database.read() as conn:
        group = queries.group_of(conn, trajectory_id)
    trajectory = queries.load_trajectory(database, trajectory_id)
    return group, trajectory, queries.final_observation(database, trajectory_id)


def _upgrade(task: Task, package: str, package_now: str) -> str:
    """Return how the installed environment differs from the one that played (``package``); empty if it does not."""
    pairs = [(package, package_now)] if package else []
    pairs.append((f"{task.env_id} version {task.env_version}", f"{task.env_id} version {env_version(task.env_id)}"))
    return "; ".join(f"played with {then}, replayed with {now or 'no package'}" for then, now in pairs if then != now)


def _with(upgrade: str, message: str) -> str:
    return f"{message} ({upgrade})" if upgrade else message


async def _execute(env_thread: EnvThread, group: Group, trajectory: Trajectory, last: str | None) -> list[StepVerdict]:
    result = await env_thread.reset(group.task.seed, group.task.split, CALL_TIMEOUT_S)
    verdicts: list[StepVerdict] = []
    for step in trajectory.steps:
        text = await _text_hash(env_thread, step.observation) if not (step.images or result.images) else None
        before, result = result, await env_thread.step(step.action, CALL_TIMEOUT_S)
        verdicts.append(compare(step, before, result, text))
    text = await _text_hash(env_thread, last) if last is not None and not result.images else None
    verdicts.append(compare_end(trajectory, result, text))
    return verdicts


async def _text_hash(env_thread: EnvThread, text: str) -> str:
    return await env_thread.run("normalize", lambda env: observation_hash(env, text), CALL_TIMEOUT_S)


def compare(step: Step, before: StepResult, after: StepResult, text_hash: str | None = None) -> StepVerdict:
    """Compare a stored step with its re-execution: ``before`` holds the observation, ``after`` the action's result.

    ``text_hash`` is the hash of the stored text; None if the observation is more than text.
    """
    return _verdict(
        step.index,
        (
            ("observation hash", step.observation_hash, before.hash),
            ("hash of the stored text (normalized)", step.observation_hash, text_hash),
            ("reward", step.reward, after.reward),
            ("end", (step.terminated, step.truncated), (after.terminated, after.truncated)),
        ),
    )


def compare_end(trajectory: Trajectory, last: StepResult, text_hash: str | None = None) -> StepVerdict:
    """Compare the last observation and the summary columns of an ended trajectory with its steps and the environment.

    Summary columns are compared only for completed or truncated trajectories; if the worker died they were never
    computed.
    """
    checks: list[tuple[str, object, object]] = []
    if trajectory.final_observation_hash:
        checks = [
            ("last observation's hash", trajectory.final_observation_hash, last.hash),
            ("hash of the stored last text (normalized)", trajectory.final_observation_hash, text_hash),
        ]
    if trajectory.status in SCORED_STATUSES:
        total = fsum(step.reward for step in trajectory.steps)
        if not isclose(total, trajectory.reward, rel_tol=REWARD_TOLERANCE, abs_tol=REWARD_TOLERANCE):
            checks.append(("total reward", trajectory.reward, total))
        if trajectory.steps:
            checks.append(("success", trajectory.success, last.success))
        status = Status.COMPLETED if last.terminated else Status.TRUNCATED
        checks.append(("status", trajectory.status.value, status.value))
    return _verdict(len(trajectory.steps), checks)


def _verdict(index: int, checks: Iterable[tuple[str, object, object]]) -> StepVerdict:
    """Return the verdict on a step, with the first difference. A check whose new value is None is skipped."""
    for name, stored, now in checks:
        if now is not None and stored != now:
            return StepVerdict(index, False, f"{name} was {stored!r}, now {now!r}")
    return StepVerdict(index, True)
