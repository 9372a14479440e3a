"""Replay: play a stored trajectory's actions again, in a fresh environment, and hold what comes against what was
stored.

Compared are every observation hash, every reward (exactly: a deterministic environment computes the same float), and
how the episode ended. What the store itself holds is checked first: an observation or token array that no longer has
its hash is altered, and the step is named.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from ..envs.errors import EnvError
from ..envs.owner import EnvOwner
from ..envs.seen import Seen
from ..records import Group, Status, Step, Trajectory
from ..store import queries
from ..store.database import Database, open_database
from ..store.errors import StepCorrupt

DEADLINE = 60.0
"""Seconds for each call into the environment."""


@dataclass(frozen=True, slots=True)
class StepVerdict:
    """What the replay of one step came to. ``index`` is the number of steps for the observation after the last one."""

    index: int
    matches: bool
    differs: str = ""
    """What was stored and what came, for a person."""


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """The replay of one trajectory."""

    trajectory: str
    matches: bool
    message: str
    steps: list[StepVerdict] = field(default_factory=list)


def replay(store_url: str, trajectory_id: str) -> ReplayReport:
    """Re-execute a stored trajectory.

    Raises:
        NotFound: there is no such trajectory, or no such store.
    """
    return asyncio.run(replay_stored(open_database(store_url), trajectory_id))


async def replay_stored(database: Database, trajectory_id: str) -> ReplayReport:
    """``replay`` on an open store, inside an event loop."""
    with database.read() as conn:
        group = queries.group_of(conn, trajectory_id)
    try:
        trajectory = queries.load_trajectory(database, trajectory_id)
    except StepCorrupt as error:
        return ReplayReport(trajectory_id, False, str(error), [StepVerdict(error.step, False, str(error))])
    if trajectory.status is Status.RUNNING:
        return ReplayReport(trajectory_id, False, "it is still running")
    if not trajectory.deterministic:
        return ReplayReport(trajectory_id, False, f"{group.task.env_id} does not declare itself deterministic")
    owner = EnvOwner.of(group.task)
    try:
        await owner.make(DEADLINE)
        steps = await _execute(owner, group, trajectory)
    except EnvError as error:
        return ReplayReport(trajectory_id, False, f"the environment could not be re-executed: {error}")
    finally:
        await owner.close(DEADLINE)
    wrong = next((one for one in steps if not one.matches), None)
    if wrong is not None:
        return ReplayReport(trajectory_id, False, f"step {wrong.index} differs: {wrong.differs}", steps)
    return ReplayReport(trajectory_id, True, f"all {len(trajectory.steps)} steps match", steps)


async def _execute(owner: EnvOwner, group: Group, trajectory: Trajectory) -> list[StepVerdict]:
    seen = await owner.reset(group.task.seed, group.task.split, DEADLINE)
    verdicts: list[StepVerdict] = []
    for step in trajectory.steps:
        before, seen = seen, await owner.step(step.action, DEADLINE)
        verdicts.append(compare(step, before, seen))
    if trajectory.final_observation_hash:
        same = seen.hash == trajectory.final_observation_hash
        differs = (
            "" if same else f"the last observation has hash {seen.hash}, stored was {trajectory.final_observation_hash}"
        )
        verdicts.append(StepVerdict(len(trajectory.steps), same, differs))
    return verdicts


def compare(step: Step, before: Seen, after: Seen) -> StepVerdict:
    """One stored step against the observation before it and what it brought."""
    for what, stored, came in (
        ("observation hash", step.observation_hash, before.hash),
        ("observation", step.observation, before.text),
        ("reward", step.reward, after.reward),
        ("end", (step.terminated, step.truncated), (after.terminated, after.truncated)),
    ):
        if stored != came:
            return StepVerdict(step.index, False, f"{what} was {stored!r}, now {came!r}")
    return StepVerdict(step.index, True)
