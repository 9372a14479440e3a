"""Replay: play a stored trajectory's actions again, in a fresh environment, and hold what comes against what was
stored.

Compared are every observation hash, every reward (exactly: a deterministic environment computes the same float), how
the episode ended, and what the trajectory's head says of all that. Texts are compared as the environment normalizes
them, for the rest may differ from one time to the next: the text that is stored must still have the stored hash. What
the store itself holds is checked first: an observation or token array that no longer has its hash is altered, and the
step is named.

A difference may come from an upgrade of the environment: the report names the version that played, where it is not the
installed one.
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
"""Seconds for each call into the environment."""
REWARD_TOLERANCE = 1e-9
"""Of the sum of the rewards, relative and absolute."""


@dataclass(frozen=True, slots=True)
class StepVerdict:
    """What the replay of one step came to. ``index`` is the number of steps for the end: the last observation and the
    trajectory's head.
    """

    index: int
    matches: bool
    differs: str = ""
    """What was stored and what came, for a person."""


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """The replay of one trajectory; the last of ``steps`` is the verdict on its end."""

    id: str
    """The trajectory's."""
    matches: bool
    message: str
    steps: list[StepVerdict] = field(default_factory=list)
    upgrade: str = ""
    """Which version of the environment played the trajectory and which replayed it; empty where they do not differ, or
    the trajectory does not name its own.
    """


def replay(store_url: str, trajectory_id: str) -> ReplayReport:
    """Re-execute a stored trajectory. One without a step has nothing that could match.

    Raises:
        NotFound: there is no such trajectory, or no such store.
    """
    with closing(open_database(store_url)) as database:
        return asyncio.run(replay_stored(database, trajectory_id))


async def replay_stored(database: Database, trajectory_id: str) -> ReplayReport:
    """``replay`` on an open store, inside an event loop."""
    try:
        group, trajectory, last = await asyncio.to_thread(_load, database, trajectory_id)
    except StepCorrupt as error:
        return ReplayReport(trajectory_id, False, str(error), [StepVerdict(error.step, False, str(error))])
    if trajectory.status is Status.RUNNING:
        return ReplayReport(trajectory_id, False, "it is still running")
    if not trajectory.steps:
        why = f"nothing to replay: it ended as {trajectory.status} before its first step"
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
    """How the environment that replays differs from the one that played (``package``); empty where it does not."""
    pairs = [(package, package_now)] if package else []
    pairs.append((f"{task.env_id} version {task.env_version}", f"{task.env_id} version {env_version(task.env_id)}"))
    return "; ".join(f"played with {then}, replayed with {now or 'no package'}" for then, now in pairs if then != now)


def _with(upgrade: str, message: str) -> str:
    return f"{message} ({upgrade})" if upgrade else message


async def _execute(env_thread: EnvThread, group: Group, trajectory: Trajectory, last: str | None) -> list[StepVerdict]:
    seen = await env_thread.reset(group.task.seed, group.task.split, CALL_TIMEOUT_S)
    verdicts: list[StepVerdict] = []
    for step in trajectory.steps:
        text = await _text_hash(env_thread, step.observation) if not (step.images or seen.images) else None
        before, seen = seen, await env_thread.step(step.action, CALL_TIMEOUT_S)
        verdicts.append(compare(step, before, seen, text))
    text = await _text_hash(env_thread, last) if last is not None and not seen.images else None
    verdicts.append(compare_end(trajectory, seen, text))
    return verdicts


async def _text_hash(env_thread: EnvThread, text: str) -> str:
    return await env_thread.run("normalize", lambda env: observation_hash(env, text), CALL_TIMEOUT_S)


def compare(step: Step, before: StepResult, after: StepResult, text_hash: str | None = None) -> StepVerdict:
    """One stored step against the observation before it and what it brought; ``text_hash`` is that of the stored text,
    None where there is more than text.
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
    """The last observation, and the head of an ended trajectory against its steps and the environment's verdict.

    A trajectory whose worker died has a head that nobody reckoned, so heads count only where there was an outcome.
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
            checks.append(("reward in all", trajectory.reward, total))
        if trajectory.steps:
            checks.append(("success", trajectory.success, last.success))
        status = Status.COMPLETED if last.terminated else Status.TRUNCATED
        checks.append(("status", trajectory.status.value, status.value))
    return _verdict(len(trajectory.steps), checks)


def _verdict(index: int, checks: Iterable[tuple[str, object, object]]) -> StepVerdict:
    """None as what came: there is nothing to compare."""
    for what, stored, came in checks:
        if came is not None and stored != came:
            return StepVerdict(index, False, f"{what} was {stored!r}, now {came!r}")
    return StepVerdict(index, True)
