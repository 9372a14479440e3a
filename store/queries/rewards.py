"""Reads of rewards: scored groups, reward sets, the trajectories that a set lacks, and both returns of a trajectory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, or_, select

from ...records import SCORED_STATUSES, Group, GroupState, ScoredGroup, Trajectory, failed_by_policy
from ..database import Database
from ..errors import NotFound, StepCorrupt
from ..operations.rewards import Rewards, reward_digest
from ..schema import OWN, among, reward, rollout_group, trajectory
from ..schema import reward_set as reward_set_table
from .conditions import of_run, surviving
from .lists import find_run
from .load import load_group_heads, load_groups, load_trajectories

own = reward.alias("own")
OF_OWN = and_(own.c.trajectory_no == trajectory.c.no, own.c.set_no == OWN)
"""The row ``own`` of ``reward`` has the rewards that the run of a trajectory was trained with."""


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
    """The options of the component that change the rewards."""
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
    find_run(conn, run)
    rows = conn.execute(select(reward_set_table).where(of_run(reward_set_table, run)).order_by(reward_set_table.c.no))
    return [RewardSet(row.no, run, row.name, row.component, row.options, row.created_at) for row in rows]


def reward_set(conn: Connection, run: str, name: str) -> RewardSet:
    """Return a reward set of a run by its name.

    Raises:
        NotFound: the run is not in the store, or has no reward set of that name; the message names those that exist.
    """
    known = {one.name: one for one in reward_sets(conn, run)}
    if name not in known:
        names = f"it has {', '.join(known)}" if known else "it has none"
        raise NotFound(
            f"run {run} has no reward set `{name}`; {names}: `turnwise runs score {run} --rewards {name}` makes one"
        )
    return known[name]


def rewards_of(conn: Connection, trajectories: Sequence[str], set_no: int = OWN) -> dict[str, Rewards]:
    """Return the rewards of trajectories in a set, by id; a trajectory without an entry there is left out.

    Raises:
        StepCorrupt: an entry was altered.
    """
    numbers = select(trajectory.c.no, trajectory.c.id)
    names = {row.no: row.id for row in among(conn, numbers, trajectory.c.id, trajectories)}
    # By the key: a join with the ids may read all rewards of the set, which are those of all runs.
    found: dict[str, Rewards] = {}
    for row in among(conn, select(reward).where(reward.c.set_no == set_no), reward.c.trajectory_no, names):
        name = names[row.trajectory_no]
        if reward_digest(row._mapping) != row.digest:
            raise StepCorrupt(f"trajectory {name}: its stored rewards were altered")
        found[name] = Rewards(name, row.rewards, row.verdicts)
    return found


def load_scored(
    database: Database,
    groups: Sequence[str],
    *,
    texts: bool = False,
    known: Mapping[str, Group] | None = None,
    rewards: RewardSet | None = None,
) -> list[ScoredGroup]:
    """Return groups in the given order with their rewards, and only with the members that have rewards.

    A member without an own entry keeps the environment's rewards: its run has no reward shaper.

    Args:
        texts: as in ``load_groups``.
        known: trajectories of closed groups that this process has loaded already, by the group's id.
        rewards: the set of the rewards; None for those that the run was trained with.

    Raises:
        NotFound: a group is not in the store, or a member was not scored for the set yet.
        StepCorrupt: content or rewards were altered.
        BlobMissing: content is missing.
    """
    known = known or {}
    loaded = {
        group.id: group for group in load_groups(database, [name for name in groups if name not in known], texts=texts)
    }
    with database.read() as conn:
        for head in load_group_heads(conn, list(known)):
            loaded[head.id] = replace(head, trajectories=known[head.id].trajectories)
        names = [one.id for group in loaded.values() for one in group.trajectories]
        stored = rewards_of(conn, names, OWN if rewards is None else rewards.no)
        if rewards is None:
            _check_whole(conn, loaded, stored)
    return [_scored(loaded[name], stored, rewards) for name in groups]


def _check_whole(conn: Connection, groups: Mapping[str, Group], stored: Mapping[str, Rewards]) -> None:
    """Check that no rewards of a group are missing: its members would get the environment's rewards instead."""
    for row in among(conn, select(rollout_group.c.id, rollout_group.c.n_rewards), rollout_group.c.id, groups):
        found, count = sum(one.id in stored for one in groups[row.id].trajectories), row.n_rewards or 0
        if found != count:
            raise StepCorrupt(f"group {row.id}: rewards of {count} members were stored, and those of {found} are there")


def _scored(group: Group, stored: Mapping[str, Rewards], chosen: RewardSet | None) -> ScoredGroup:
    finished = [one for one in group.trajectories if one.status in SCORED_STATUSES]
    if chosen is not None and (missing := [one.id for one in finished if one.id not in stored]):
        raise NotFound(
            f"trajectory {missing[0]} has no score in the reward set `{chosen.name}`: "
            f"run `turnwise runs score {chosen.run} --rewards {chosen.name}` with the same reward again"
        )
    rewards = [stored[one.id].rewards if one.id in stored else [step.reward for step in one.steps] for one in finished]
    kept = [(one, turns) for one, turns in zip(finished, rewards, strict=True) if turns is not None]
    return ScoredGroup(
        replace(group, trajectories=tuple(one for one, _ in kept)),
        [turns for _, turns in kept],
        len(finished) - len(kept),
        failed_by_policy(group.trajectories),
    )


def load_scored_trajectories(
    database: Database, trajectories: Sequence[str], *, texts: bool = False
) -> list[tuple[Trajectory, Sequence[float]]]:
    """Return trajectories in the given order, each with its shaped rewards per turn.

    A trajectory without stored rewards keeps the environment's rewards. Raises as ``load_scored`` does.
    """
    loaded = load_trajectories(database, trajectories, texts=texts)
    with database.read() as conn:
        stored = rewards_of(conn, trajectories)
    shaped = {name: one.rewards for name, one in stored.items() if one.rewards is not None}
    return [(one, shaped.get(one.id, [step.reward for step in one.steps])) for one in loaded]


def not_in_set(conn: Connection, run: str, set_no: int) -> list[tuple[str, list[str]]]:
    """Return the groups with trajectories that have no rewards in a set, oldest first, each with these trajectories.

    Only completed and truncated trajectories of closed groups of the surviving history can be scored.
    """
    has_rewards = select(reward.c.set_no).where(
        reward.c.set_no == set_no, reward.c.trajectory_no == trajectory.c.no, reward.c.total.is_not(None)
    )
    rows = conn.execute(_scorable(run).where(~has_rewards.exists()))
    return [(group, [row.id for row in members]) for group, members in groupby(rows, key=lambda row: row.group_id)]


def scorable(conn: Connection, run: str) -> int:
    """Return the number of trajectories of a run that can be scored."""
    return len(conn.execute(_scorable(run)).all())


def returns_in(conn: Connection, set_no: int) -> list[Returns]:
    """Return the old and the new return of every trajectory that has both, by group."""
    which = (
        select(rollout_group.c.id.label("group_id"), trajectory.c.reward, own.c.total.label("shaped"), reward.c.total)
        .join(trajectory, trajectory.c.no == reward.c.trajectory_no)
        .join(rollout_group, rollout_group.c.no == trajectory.c.group_no)
        .join(own, OF_OWN, isouter=True)
        .where(
            reward.c.set_no == set_no,
            reward.c.total.is_not(None),
            or_(own.c.trajectory_no.is_(None), own.c.total.is_not(None)),
        )
        .order_by(trajectory.c.group_no, trajectory.c.member, trajectory.c.attempt)
    )
    return [
        Returns(row.group_id, float(row.reward if row.shaped is None else row.shaped), float(row.total))
        for row in conn.execute(which)
    ]


def _scorable(run: str) -> Any:
    return (
        select(trajectory.c.id, rollout_group.c.id.label("group_id"))
        .join(rollout_group, rollout_group.c.no == trajectory.c.group_no)
        .where(surviving(trajectory, run), rollout_group.c.state != GroupState.OPEN.value)
        .where(trajectory.c.status.in_([status.value for status in SCORED_STATUSES]))
        .order_by(rollout_group.c.no, trajectory.c.member)
    )
