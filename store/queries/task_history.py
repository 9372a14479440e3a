"""Success per task and policy version: the columns of a run's tasks over time."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, Integer, cast, func, select

from ...records import Purpose
from ..schema import RESULT, among, rollout_group, task, trajectory
from .conditions import surviving


class Played(NamedTuple):
    """Counted episodes of one task, or of several."""

    counted: int
    successes: int
    example: int
    """``no`` of the newest of them."""

    @property
    def success(self) -> float | None:
        """The share of successes; None without an episode."""
        return self.successes / self.counted if self.counted else None


@dataclass(frozen=True, slots=True)
class TaskHistory:
    """A task of a run, with its counted episodes by policy version."""

    task: str
    env_id: str
    options: Mapping[str, Any]
    seed: int
    split: str
    played: Mapping[int | None, Played]
    """By the newest version that sampled in the episode; None for episodes without a version."""


def played_seeds(conn: Connection, run: str, env_id: str, options: Mapping[str, Any], split: str) -> set[int]:
    """Return the seeds of the tasks of an environment in the surviving groups of a run."""
    groups = select(rollout_group.c.task_no).where(surviving(rollout_group, run))
    which = select(task.c.seed, task.c.options).where(task.c.no.in_(groups), task.c.env_id == env_id)
    return {seed for seed, own in conn.execute(which.where(task.c.split == split)) if own == dict(options)}


def task_histories(conn: Connection, run: str, purpose: Purpose) -> list[TaskHistory]:
    """Return the tasks of the surviving episodes of a run that a rate counts, in the order of their first draw."""
    which = (
        select(
            rollout_group.c.task_no,
            trajectory.c.max_version,
            func.count(RESULT).label("counted"),
            func.sum(cast(RESULT, Integer)).label("successes"),
            func.max(trajectory.c.no).label("example"),
        )
        .join(rollout_group, rollout_group.c.no == trajectory.c.group_no)
        .where(surviving(trajectory, run), trajectory.c.purpose == purpose.value)
        .where(trajectory.c.ended_at.is_not(None), RESULT.is_not(None))
        .group_by(rollout_group.c.task_no, trajectory.c.max_version)
    )
    found: dict[int, dict[int | None, Played]] = {}
    for number, version, *played in conn.execute(which):
        found.setdefault(number, {})[version] = Played(*played)
    columns = task.c.no, task.c.id, task.c.env_id, task.c.options, task.c.seed, task.c.split
    rows = {row.no: row for row in among(conn, select(*columns), task.c.no, found)}
    return [
        TaskHistory(rows[no].id, rows[no].env_id, rows[no].options, rows[no].seed, rows[no].split, played)
        for no, played in sorted(found.items())
    ]


def trajectory_names(conn: Connection, numbers: Iterable[int]) -> dict[int, str]:
    """Return the ids of trajectories by ``no``."""
    which = select(trajectory.c.no, trajectory.c.id)
    return {row.no: row.id for row in among(conn, which, trajectory.c.no, numbers)}
