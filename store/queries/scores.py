"""Reads of scores: closed groups with their shaped rewards, and the verdicts on one trajectory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, Row, bindparam, false, func, select

from ...records import SCORED_STATUSES, Group, GroupState, Purpose, ScoredGroup, Trajectory, failed_by_policy
from ..database import Database
from ..errors import StepCorrupt
from ..operations.scores import score_digest
from ..schema import no_of, rollout_group, score, trajectory
from ..schema import run as run_table
from .load import load_group_heads, load_groups, load_trajectories

_CHUNK = 500


@dataclass(frozen=True, slots=True)
class StoredScore:
    """The stored score of one trajectory."""

    rewards: list[float] | None
    """Shaped rewards per turn; None if a reward shaper could not score the trajectory."""
    verdicts: list[dict[str, Any]]
    """One per reward shaper, in the order of the shapers."""


def load_scored(
    database: Database, groups: Sequence[str], *, texts: bool = False, known: Mapping[str, Group] | None = None
) -> list[ScoredGroup]:
    """Return scored groups in the given order, with their scored members only.

    A member without a stored score keeps the environment's rewards: its run has no reward shaper.

    Args:
        texts: as in ``load_groups``.
        known: trajectories of closed groups that this process has loaded already, by the group's id.

    Raises:
        NotFound: a group is not in the store.
        StepCorrupt: content was altered.
        BlobMissing: content is missing.
    """
    known = known or {}
    loaded = {one.id: one for one in load_groups(database, [name for name in groups if name not in known], texts=texts)}
    with database.read() as conn:
        for head in load_group_heads(conn, list(known)):
            loaded[head.id] = replace(head, trajectories=known[head.id].trajectories)
        rows = _stored(conn, [one.id for group in loaded.values() for one in group.trajectories])
        _check_whole(conn, loaded, rows)
    return [_scored(loaded[name], rows) for name in groups]


def _check_whole(conn: Connection, groups: Mapping[str, Group], scores: Mapping[str, Row[Any]]) -> None:
    """Check that no score of a group is missing: its members would get the environment's rewards instead."""
    which = select(rollout_group.c.id, rollout_group.c.n_scores).where(
        rollout_group.c.id.in_(bindparam("names", expanding=True))
    )
    names = sorted(groups)
    for start in range(0, len(names), _CHUNK):
        for row in conn.execute(which, {"names": names[start : start + _CHUNK]}):
            found = sum(one.id in scores for one in groups[row.id].trajectories)
            if found != (row.n_scores or 0):
                raise StepCorrupt(f"group {row.id}: {row.n_scores or 0} scores were stored, and {found} are there")


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
    with database.read() as conn:
        rows = _stored(conn, trajectories)
    shaped = {name: row.rewards for name, row in rows.items() if row.rewards is not None}
    return [(one, shaped.get(one.id, [step.reward for step in one.steps])) for one in loaded]


def _stored(conn: Connection, trajectories: Sequence[str]) -> dict[str, Row[Any]]:
    """Return the rows of the scores of trajectories, by the trajectory's id. Raises StepCorrupt."""
    statement = (
        select(trajectory.c.id, score)
        .join(score, score.c.trajectory_no == trajectory.c.no)
        .where(trajectory.c.id.in_(bindparam("names", expanding=True)))
    )
    found: dict[str, Row[Any]] = {}
    for start in range(0, len(trajectories), _CHUNK):
        for row in conn.execute(statement, {"names": list(trajectories[start : start + _CHUNK])}):
            if score_digest(row._mapping) != row.digest:
                raise StepCorrupt(f"trajectory {row.id}: its stored score was altered")
            found[row.id] = row
    return found


def _scored(group: Group, rows: dict[str, Row[Any]]) -> ScoredGroup:
    finished = [one for one in group.trajectories if one.status in SCORED_STATUSES]
    rewards = [rows[one.id].rewards if one.id in rows else [step.reward for step in one.steps] for one in finished]
    kept = [(one, turns) for one, turns in zip(finished, rewards, strict=True) if turns is not None]
    members = tuple(one for one, _ in kept)
    return ScoredGroup(
        replace(group, trajectories=members),
        [turns for _, turns in kept],
        len(finished) - len(members),
        failed_by_policy(group.trajectories),
    )


def score_of(conn: Connection, trajectory_id: str) -> StoredScore | None:
    """Return the stored score of a trajectory; None if no reward shaper read it. Raises StepCorrupt."""
    row = _stored(conn, [trajectory_id]).get(trajectory_id)
    return None if row is None else StoredScore(row.rewards, row.verdicts)


def unscored_groups(conn: Connection, run: str) -> list[str]:
    """Return the ids of the training groups whose members have ended and that are not scored yet, oldest first."""
    which = (
        select(rollout_group.c.id)
        .where(
            rollout_group.c.run_no == no_of(run_table, run),
            rollout_group.c.purpose == Purpose.TRAIN.value,
            rollout_group.c.state == GroupState.SCORING.value,
        )
        .order_by(rollout_group.c.closed_at, rollout_group.c.no)
    )
    return list(conn.execute(which).scalars())


def scored_from(conn: Connection, run: str, number: int) -> list[tuple[int, str]]:
    """Return number and id of the surviving groups whose scoring has ``number`` or a higher one, in that order."""
    which = (
        select(rollout_group.c.score_no, rollout_group.c.id)
        .where(
            rollout_group.c.run_no == no_of(run_table, run),
            rollout_group.c.score_no >= number,
            rollout_group.c.abandoned == false(),
        )
        .order_by(rollout_group.c.score_no)
    )
    return [(row.score_no, row.id) for row in conn.execute(which)]


def next_scoring(conn: Connection, run: str) -> int:
    """Return a number above that of every scoring of a run, abandoned ones included."""
    highest = select(func.max(rollout_group.c.score_no)).where(rollout_group.c.run_no == no_of(run_table, run))
    last = conn.execute(highest).scalar_one()
    return 0 if last is None else int(last) + 1
