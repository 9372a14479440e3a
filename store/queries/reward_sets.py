"""Reads of reward sets: their scores, the trajectories that have none yet, and both returns of each trajectory."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, false, select

from ...records import SCORED_STATUSES, Group, GroupState, ScoredGroup, failed_by_policy
from ..database import Database
from ..errors import NotFound, StepCorrupt
from ..operations.reward_sets import reward_digest
from ..schema import no_of, reward, rollout_group, score, trajectory
from ..schema import reward_set as reward_set_table
from ..schema import run as run_table
from .lists import run_row
from .load import load_groups
from .scores import StoredScore

_CHUNK = 500


@dataclass(frozen=True, slots=True)
class RewardSet:
    """Other rewards of the trajectories of a run, made by one component."""

    no: int
    """Key of the set in this store."""
    run: str
    name: str
    component: str
    """Name of the reward shaper."""
    options: Mapping[str, Any]
    """The options of the component that change the scores."""
    created_at: datetime


class Returns(NamedTuple):
    """The two returns of a trajectory that has both."""

    group: str
    old: float
    """Return in the run: shaped, or that of the environment if the run has no reward shaper."""
    new: float
    """Return in the reward set."""


def reward_sets(conn: Connection, run: str) -> list[RewardSet]:
    """Return the reward sets of a run, oldest first. Raises NotFound: the run is not in the store."""
    run_row(conn, run)
    which = select(reward_set_table).where(reward_set_table.c.run_no == no_of(run_table, run))
    rows = conn.execute(which.order_by(reward_set_table.c.no))
    return [RewardSet(row.no, run, row.name, row.component, row.options, row.created_at) for row in rows]


def reward_set(conn: Connection, run: str, name: str) -> RewardSet:
    """Return a reward set of a run by its name.

    Raises:
        NotFound: the run is not in the store, or has no reward set of that name; the message names those that exist.
    """
    known = {one.name: one for one in reward_sets(conn, run)}
    if name not in known:
        names = f"it has {', '.join(known)}" if known else "it has none"
        raise NotFound(f"run {run} has no reward set `{name}`; {names}: `turnwise score {run} --name {name}` makes one")
    return known[name]


def rewards_in(conn: Connection, set_no: int, trajectories: Sequence[str]) -> dict[str, StoredScore]:
    """Return the scores of trajectories in a reward set, by id; a trajectory without a score there is left out.

    Raises:
        StepCorrupt: a score was altered.
    """
    which = (
        select(trajectory.c.id, reward)
        .join(reward, reward.c.trajectory_no == trajectory.c.no)
        .where(reward.c.set_no == set_no, trajectory.c.id.in_(bindparam("names", expanding=True)))
    )
    found: dict[str, StoredScore] = {}
    for start in range(0, len(trajectories), _CHUNK):
        for row in conn.execute(which, {"names": list(trajectories[start : start + _CHUNK])}):
            if reward_digest(dict(row._mapping)) != row.digest:
                raise StepCorrupt(f"trajectory {row.id}: its score in a reward set was altered")
            found[row.id] = StoredScore(row.rewards, row.verdicts)
    return found


def not_in_set(conn: Connection, run: str, set_no: int) -> list[tuple[str, list[str]]]:
    """Return the groups with trajectories that have no rewards in a set, oldest first, each with these trajectories.

    Only completed and truncated trajectories of closed groups of the surviving history can be scored.
    """
    has_rewards = select(reward.c.set_no).where(
        reward.c.set_no == set_no, reward.c.trajectory_no == trajectory.c.no, reward.c.total.is_not(None)
    )
    which = _scorable(run).where(~has_rewards.exists())
    rows = conn.execute(which)
    return [(group, [row.id for row in members]) for group, members in groupby(rows, key=lambda row: row.group_id)]


def scorable(conn: Connection, run: str) -> int:
    """Return the number of trajectories of a run that can be scored."""
    return len(conn.execute(_scorable(run)).all())


def returns_in(conn: Connection, set_no: int) -> list[Returns]:
    """Return the old and the new return of every trajectory that has both, by group."""
    which = (
        select(rollout_group.c.id.label("group_id"), trajectory.c.reward, score.c.rewards, reward.c.total)
        .select_from(reward)
        .join(trajectory, trajectory.c.no == reward.c.trajectory_no)
        .join(rollout_group, rollout_group.c.no == trajectory.c.group_no)
        .join(score, score.c.trajectory_no == reward.c.trajectory_no, isouter=True)
        .where(
            reward.c.set_no == set_no,
            reward.c.total.is_not(None),
            score.c.trajectory_no.is_(None) | score.c.rewards.is_not(None),
        )
        .order_by(trajectory.c.group_no, trajectory.c.member, trajectory.c.attempt)
    )
    return [
        Returns(row.group_id, float(row.reward if row.rewards is None else sum(row.rewards)), float(row.total))
        for row in conn.execute(which)
    ]


def load_in_set(database: Database, groups: Sequence[str], stored: RewardSet, *, texts: bool) -> list[ScoredGroup]:
    """Return groups in the given order with the rewards of a set, and only with the members that have rewards there.

    Raises:
        NotFound: a group is not in the store, or a member was not scored for this set yet.
        StepCorrupt: content or a score was altered.
    """
    loaded = load_groups(database, groups, texts=texts)
    names = [one.id for group in loaded for one in group.trajectories]
    with database.read() as conn:
        scores = rewards_in(conn, stored.no, names)
    return [_with_rewards(group, scores, stored) for group in loaded]


def _with_rewards(group: Group, scores: Mapping[str, StoredScore], stored: RewardSet) -> ScoredGroup:
    finished = [one for one in group.trajectories if one.status in SCORED_STATUSES]
    if missing := [one.id for one in finished if one.id not in scores]:
        raise NotFound(
            f"trajectory {missing[0]} has no score in the reward set `{stored.name}`: "
            f"run `turnwise score {stored.run} --name {stored.name}` with the same reward again"
        )
    rewards = list(_scored(scores[one.id].rewards for one in finished))
    members = tuple(one for one in finished if scores[one.id].rewards is not None)
    failed = failed_by_policy(group.trajectories)
    return ScoredGroup(replace(group, trajectories=members), rewards, len(finished) - len(members), failed)


def _scored(rewards: Iterator[list[float] | None]) -> Iterator[list[float]]:
    return (turns for turns in rewards if turns is not None)


def _scorable(run: str) -> Any:
    return (
        select(trajectory.c.id, rollout_group.c.id.label("group_id"))
        .join(rollout_group, rollout_group.c.no == trajectory.c.group_no)
        .where(
            trajectory.c.run_no == no_of(run_table, run),
            trajectory.c.status.in_([status.value for status in SCORED_STATUSES]),
            trajectory.c.abandoned == false(),
            rollout_group.c.state != GroupState.OPEN.value,
        )
        .order_by(rollout_group.c.no, trajectory.c.member)
    )
