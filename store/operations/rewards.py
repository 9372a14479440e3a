"""Rewards of trajectories, in sets: the run's own ones, which it is trained with, and others under a name.

The own rewards of a group decide its place in the queue. A group is scored once; the number of the scoring orders the
scored groups of a run: a resume passes the groups with a higher number than its checkpoint's to the components again.

A named set belongs to one run, and its name stands for one component with one set of options. A trajectory has at most
one entry per set. A later entry replaces it only if it has no rewards: the component could not score the trajectory.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Insert, Table, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from ...records import GroupState
from ..content.digests import digest_of
from ..errors import NotFound, StoreConflict
from ..schema import OWN, among, reward, reward_set, trajectory
from ..schema import run as run_table
from .group_states import transition
from .groups import locked_group
from .transaction import Transaction, numbers_of, operation

SCORED = frozenset({GroupState.READY, GroupState.FILTERED, GroupState.FAILED})
_sets = reward_set


@dataclass(frozen=True, slots=True)
class Rewards:
    """The shaped rewards of one trajectory."""

    trajectory: str
    rewards: Sequence[float] | None
    """One per turn; None if a reward shaper could not score the trajectory."""
    verdicts: Sequence[Mapping[str, Any]] = field(default=())
    """JSON values from the reward shapers, in the order of the shapers."""


@operation
def score_group(
    tx: Transaction,
    *,
    group: str,
    number: int,
    state: GroupState,
    reason: str = "",
    rewards: Sequence[Rewards] = (),
    epoch: int | None = None,
) -> None:
    """Store the own rewards of a group in state ``scoring`` and move it to ``state``; repeated, it changes nothing.

    Args:
        number: number of this scoring in the run; never used twice.
        rewards: of the members that reward shapers read; the other members keep the environment's rewards.

    Raises:
        ValueError: ``state`` is not ready, filtered or failed.
        StoreConflict: the group was scored under another number, or is not in state ``scoring``.
    """
    if state not in SCORED:
        raise ValueError(f"a scored group is ready, filtered or failed, not {state}")
    stored = locked_group(tx, group, epoch)
    if stored.score_no == number:
        return
    if stored.score_no is not None or stored.state != GroupState.SCORING:
        raise StoreConflict(f"group {group} is {stored.state}, with scoring number {stored.score_no}: not to be scored")
    if rewards:
        members = select(trajectory.c.id, trajectory.c.no).where(trajectory.c.group_no == stored.no)
        nos = {row.id: row.no for row in tx.conn.execute(members)}
        if missing := [one.trajectory for one in rewards if one.trajectory not in nos]:
            raise NotFound(f"group {group} has no trajectory {missing[0]}")
        tx.conn.execute(insert(reward), [_row(OWN, nos[one.trajectory], one) for one in rewards])
    transition(tx.conn, [group], state, reason=reason, score_no=number, n_rewards=len(rewards))


@operation
def create_reward_set(tx: Transaction, *, run: str, name: str, component: str, options: Mapping[str, Any]) -> int:
    """Create the reward set ``name`` of a run and return its number, or that of the set that exists.

    Args:
        component: name of the reward shaper that makes the rewards.
        options: JSON values; the options of the component that change the rewards.

    Raises:
        StoreConflict: the set has the rewards of another component, or of other options.
    """
    run_no = numbers_of(tx.conn, run_table, [run])[run]
    row = {"run_no": run_no, "name": name, "component": component, "options": dict(options), "created_at": tx.now}
    tx.conn.execute(_insert(tx, reward_set).on_conflict_do_nothing(index_elements=["run_no", "name"]), row)
    named = (reward_set.c.run_no == run_no) & (reward_set.c.name == name)
    stored = tx.conn.execute(select(reward_set).where(named)).one()
    if (stored.component, stored.options) != (component, dict(options)):
        raise StoreConflict(
            f"the reward set `{name}` of run {run} has the rewards of `{stored.component}` with other options"
            if stored.component == component
            else f"the reward set `{name}` of run {run} has the rewards of `{stored.component}`, not of `{component}`"
        )
    return int(stored.no)


@operation
def add_rewards(tx: Transaction, *, reward_set: int, rewards: Sequence[Rewards]) -> None:
    """Store rewards in a reward set. A trajectory that has rewards in the set keeps them."""
    if not rewards:
        return
    nos = numbers_of(tx.conn, trajectory, [one.trajectory for one in rewards])
    if tx.conn.execute(select(_sets.c.no).where(_sets.c.no == reward_set).with_for_update()).one_or_none() is None:
        raise NotFound(f"there is no reward set {reward_set}")
    in_set = select(reward.c.trajectory_no).where(reward.c.set_no == reward_set)
    stored = {no for (no,) in among(tx.conn, in_set, reward.c.trajectory_no, nos.values())}
    tx.conn.execute(_replace_missing(tx), [_row(reward_set, nos[one.trajectory], one) for one in rewards])
    added = _sets.c.n_rewards + len(set(nos.values()) - stored)
    tx.conn.execute(update(_sets).where(_sets.c.no == reward_set).values(n_rewards=added))


def reward_digest(row: Mapping[Any, Any]) -> str:
    """Return the digest of a row of ``reward``."""
    return digest_of(row[name] for name in ("set_no", "trajectory_no", "rewards", "verdicts", "total"))


def _row(set_no: int, trajectory_no: int, one: Rewards) -> dict[str, Any]:
    rewards = None if one.rewards is None else [float(value) for value in one.rewards]
    row = {
        "set_no": set_no,
        "trajectory_no": trajectory_no,
        "rewards": rewards,
        "verdicts": [dict(verdict) for verdict in one.verdicts],
        "total": None if rewards is None else float(sum(rewards)),
    }
    return dict(row, digest=reward_digest(row))


def _replace_missing(tx: Transaction) -> Insert:
    """Return an insert that replaces a row without rewards and leaves any other as it is."""
    keys = [column.name for column in reward.primary_key]
    statement = _insert(tx, reward)
    changed = {name: statement.excluded[name] for name in ("rewards", "verdicts", "total", "digest")}
    return statement.on_conflict_do_update(index_elements=keys, set_=changed, where=reward.c.total.is_(None))


def _insert(tx: Transaction, table: Table) -> postgresql.Insert | sqlite.Insert:
    return (postgresql.insert if tx.conn.dialect.name == "postgresql" else sqlite.insert)(table)
