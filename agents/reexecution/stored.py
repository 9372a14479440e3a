"""A stored trajectory as re-execution reads it: with its group, its last observation and its parent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution

from ...envs.runner.env_thread import EnvThread
from ...envs.tasks import env_version
from ...records import Group, Status, Step, Task, Trajectory
from ...store import queries
from ...store.database import Database
from ...store.errors import Pruned
from ..rollout.runners import ENV_PACKAGE


@dataclass(frozen=True, slots=True)
class Stored:
    """A trajectory as the store holds it."""

    group: Group
    trajectory: Trajectory
    last: str | None
    """The text of its final observation; None if it has none."""
    parent: Trajectory | None
    """The trajectory that it is a branch of; None if it began with a reset, or if retention removed its content."""


def load(database: Database, trajectory_id: str) -> Stored:
    """Return a trajectory with its group, its final observation and its parent.

    Raises:
        NotFound: the trajectory is not in the store.
        StepCorrupt: its content was altered.
        Pruned: retention removed its content.
    """
    with database.read() as conn:
        group = queries.group_of(conn, trajectory_id)
    trajectory = queries.load_trajectory(database, trajectory_id)
    parent = _parent(database, trajectory.branched_from) if trajectory.branched_from else None
    return Stored(group, trajectory, queries.final_observation(database, trajectory_id), parent)


def _parent(database: Database, trajectory_id: str) -> Trajectory | None:
    try:
        return queries.load_trajectory(database, trajectory_id)
    except Pruned:
        return None


def answered(trajectory: Trajectory) -> Sequence[Step]:
    """Return the steps whose action the environment answered: all but a last one on which it failed."""
    return [step for step in trajectory.steps if not step.failed]


def not_executable(trajectory: Trajectory, env_id: str, turns: int) -> str:
    """Return why a trajectory cannot be re-executed; empty if it can.

    Args:
        turns: number of its steps whose action the environment answered.
    """
    if trajectory.status is Status.RUNNING:
        return "it is still running"
    if not turns:
        turn = "in" if trajectory.steps else "before"
        return f"nothing to re-execute: the episode ended as {trajectory.status} {turn} its first step"
    if not trajectory.deterministic:
        return f"{env_id} does not declare itself deterministic"
    return ""


def missing_environment(task: Task, trajectory: Trajectory, reason: str) -> str:
    """Return which package to install for an environment that is not registered; ``reason`` if it is not known, or is
    installed."""
    package = str(trajectory.extras.get(ENV_PACKAGE, ""))
    name, _, version = package.partition(" ")
    try:
        if package:
            distribution(name)
    except (PackageNotFoundError, ValueError):
        install = f"{name}=={version}" if version else name
        return f"environment `{task.env_id}` is not registered: install the package that played it, `{install}`"
    return reason


def upgrade_of(task: Task, trajectory: Trajectory, env_thread: EnvThread) -> str:
    """Return how the installed environment differs from the one that played; empty if it does not."""
    package = str(trajectory.extras.get(ENV_PACKAGE, ""))
    pairs = [(package, env_thread.package)] if package else []
    pairs.append((f"{task.env_id} version {task.env_version}", f"{task.env_id} version {env_version(task.env_id)}"))
    return "; ".join(f"played with {then}, replayed with {now or 'no package'}" for then, now in pairs if then != now)
