"""Reads of scores: closed groups with their shaped rewards, and the verdicts on one trajectory."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, Row, bindparam, false, func, select

from ...records import SCORED_STATUSES, Group, GroupState, Purpose, ScoredGroup, Trajectory
from ..database import Database
from ..schema import rollout_group, score, trajectory
from .load import load_groups, load_trajectories


@dataclass(frozen=True, slots=True)
class StoredScore:
    """The stored score of one trajectory."""

    rewards: list[float] | None
    """Shaped rewards per turn; None if a reward shaper could not score the trajectory."""
    verdicts: list[dict[str, Any]]
    """One per reward shaper, in the order of the shapers."""


def load_scored(database: Database, groups: Sequence[str], *, texts: bool = False) -> list[ScoredGroup]:
    """Return scored groups in the given order, with their scored members only.

    A member without a stored score keeps the environment's rewards: its run has no reward shaper.

    Raises:
        NotFound: a group is not in the store.
        StepCorrupt: content was altered.
        BlobMissing: content is missing.
    """
    loaded = load_groups(database, groups, texts=texts)
    statement = select(score).join(trajectory).where(trajectory.c.group_id.in_(bindparam("groups", expanding=True)))
    with database.read() as conn:
        rows = {row.trajectory_id: row for row in conn.execute(statement, {"groups": list(groups)})}
    return [_scored(group, rows) for group in loaded]


def load_scored_trajectories(
    database: Database, trajectories: Sequence[str], *, texts: bool = False
) -> list[tuple[Trajectory, Sequence[float]]]:
    """Return trajectories in the given order, each with its shaped rewards per turn.

    A trajectory without stored rewards keeps the environment's rewards.

    Raises:
        NotFound: a trajectory is not in the store.
        StepCorrupt: content was altered.
        BlobMissing: content is missing.
    """
    loaded = load_trajectories(database, trajectories, texts=texts)
    statement = select(score).where(
        score.c.trajectory_id.in_(bindparam("names", expanding=True)), score.c.rewards.is_not(None)
    )
    with database.read() as conn:
        shaped = {row.trajectory_id: row.rewards for row in conn.execute(statement, {"names": list(trajectories)})}
    return [(one, shaped.get(one.id, [step.reward for step in one.steps])) for one in loaded]


def _scored(group: Group, rows: dict[str, Row[Any]]) -> ScoredGroup:
    finished = [one for one in group.trajectories if one.status in SCORED_STATUSES]
    rewards = [rows[one.id].rewards if one.id in rows else [step.reward for step in one.steps] for one in finished]
    kept = [(one, turns) for one, turns in zip(finished, rewards, strict=True) if turns is not None]
    members = tuple(one for one, _ in kept)
    return ScoredGroup(replace(group, trajectories=members), [turns for _, turns in kept], len(finished) - len(members))


def score_of(conn: Connection, trajectory_id: str) -> StoredScore | None:
    """Return the stored score of a trajectory; None if no reward shaper read it."""
    row = conn.execute(select(score).where(score.c.trajectory_id == trajectory_id)).one_or_none()
    return None if row is None else StoredScore(row.rewards, row.verdicts)


def unscored_groups(conn: Connection, run: str) -> list[str]:
    """Return the ids of the training groups whose members have ended and that are not scored yet, oldest first."""
    which = (
        select(rollout_group.c.id)
        .where(
            rollout_group.c.run_id == run,
            rollout_group.c.purpose == Purpose.TRAIN.value,
            rollout_group.c.state == GroupState.SCORING.value,
        )
        .order_by(rollout_group.c.closed_at, rollout_group.c.id)
    )
    return list(conn.execute(which).scalars())


def scored_from(conn: Connection, run: str, number: int) -> list[tuple[int, str]]:
    """Return number and id of the surviving groups whose scoring has ``number`` or a higher one, in that order."""
    which = (
        select(rollout_group.c.score_no, rollout_group.c.id)
        .where(
            rollout_group.c.run_id == run,
            rollout_group.c.score_no >= number,
            rollout_group.c.abandoned == false(),
        )
        .order_by(rollout_group.c.score_no)
    )
    return [(row.score_no, row.id) for row in conn.execute(which)]


def next_scoring(conn: Connection, run: str) -> int:
    """Return a number above that of every scoring of a run, abandoned ones included."""
    highest = select(func.max(rollout_group.c.score_no)).where(rollout_group.c.run_id == run)
    last = conn.execute(highest).scalar_one()
    return 0 if last is None else int(last) + 1
