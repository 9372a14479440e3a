"""Reward sets: other rewards of stored trajectories, kept under a name next to the old ones.

A reward set belongs to one run. Its name stands for one component with one set of options. A trajectory has at most one
score per set. A later score replaces it only if it has no rewards: the component could not score the trajectory.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Insert, Table, select, update
from sqlalchemy.dialects import postgresql, sqlite

from ..content.digests import digest_of
from ..content.seals import UNSEALED, change, count_rows
from ..errors import NotFound, StoreConflict
from ..schema import Lookup, no_of, reward, reward_set, trajectory
from ..schema import run as run_table
from .scores import Score
from .transaction import Transaction, numbers_of, operation

_sets = reward_set
_STORED = Lookup(select(reward.c.trajectory_no, reward.c.set_no), reward.c.trajectory_no)


@operation
def create_reward_set(tx: Transaction, *, run: str, name: str, component: str, options: Mapping[str, Any]) -> int:
    """Create the reward set ``name`` of a run and return its number, or that of the set that exists.

    Args:
        component: name of the reward shaper that makes the scores.
        options: JSON values; the options of the component that change the scores.

    Raises:
        NotFound: the run is not in the store.
        StoreConflict: the set has the scores of another component, or of other options.
    """
    run_no = tx.conn.execute(select(no_of(run_table, run))).scalar_one_or_none()
    if run_no is None:
        raise NotFound(f"no run {run} in the store")
    row = {"run_no": run_no, "name": name, "component": component, "options": dict(options), "created_at": tx.now}
    added = _insert(tx, reward_set).on_conflict_do_nothing(index_elements=["run_no", "name"])
    named = (reward_set.c.run_no == run_no) & (reward_set.c.name == name)
    if tx.conn.execute(added.returning(reward_set.c.no), {**row, "digest": UNSEALED}).first() is not None:
        change(tx.conn, reward_set, named)
        count_rows(tx.conn, reward_set, run_no)
    stored = tx.conn.execute(select(reward_set).where(named)).one()
    if (stored.component, stored.options) != (component, dict(options)):
        raise StoreConflict(
            f"the reward set `{name}` of run {run} has the scores of `{stored.component}` with other options"
            if stored.component == component
            else f"the reward set `{name}` of run {run} has the scores of `{stored.component}`, not of `{component}`"
        )
    return int(stored.no)


@operation
def add_rewards(tx: Transaction, *, reward_set: int, scores: Sequence[Score]) -> None:
    """Store scores in a reward set. A trajectory that has rewards in the set keeps them.

    Raises:
        NotFound: a trajectory is not in the store.
    """
    if not scores:
        return
    nos = numbers_of(tx.conn, trajectory, [one.trajectory for one in scores])
    tx.conn.execute(select(_sets.c.no).where(_sets.c.no == reward_set).with_for_update())
    stored = {row[0] for row in _STORED.run_plain(tx.conn, nos.values()) if row[1] == reward_set}
    tx.conn.execute(_replace_missing(tx), [_row(reward_set, nos[one.trajectory], one) for one in scores])
    added = _sets.c.n_rewards + len(set(nos.values()) - stored)
    tx.conn.execute(update(_sets).where(_sets.c.no == reward_set).values(n_rewards=added))


def reward_digest(row: Mapping[Any, Any]) -> str:
    """Return the digest of a row of ``reward``."""
    return digest_of(row[name] for name in ("set_no", "trajectory_no", "rewards", "verdicts", "total"))


def _row(set_no: int, trajectory_no: int, score: Score) -> dict[str, Any]:
    rewards = None if score.rewards is None else [float(value) for value in score.rewards]
    row = {
        "set_no": set_no,
        "trajectory_no": trajectory_no,
        "rewards": rewards,
        "verdicts": [dict(verdict) for verdict in score.verdicts],
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
