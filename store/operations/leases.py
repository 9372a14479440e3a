"""The learner's side of the queue: leasing ready groups, and acknowledging a batch with the version it made.

An owner holds one batch at a time: asked again, it gets what it already holds, so a lost answer leases nothing twice.
``acknowledge`` is the only way into ``consumed``, in the transaction that records the new version: a batch and its
version are both there or neither is.
"""

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import insert, select, update

from ...records import GroupState, Purpose
from ..errors import LeaseLost
from ..schema import lease, rollout_group
from .group_states import move, states_of
from .runs import lock_run
from .transaction import Transaction, operation


@operation
def lease_groups(tx: Transaction, *, run: str, owner: str, count: int, seconds: float) -> list[str]:
    """Makes ``owner`` hold ``count`` groups for ``seconds``: those it holds, and the oldest ready ones; fewer than
    that: none ([]).

    Leases whose time is over go back to ``ready`` first, except the caller's own, which are prolonged.

    Raises:
        NotFound: there is no such run.
    """
    lock_run(tx, run)
    held = held_by(tx, run, owner)
    overdue = select(lease.c.group_id).where(
        lease.c.run_id == run, lease.c.ended_at.is_(None), lease.c.owner != owner, lease.c.expires_at < tx.now
    )
    _give_back(tx, list(tx.conn.execute(overdue).scalars()), "overdue")
    wanted = count - len(held)
    fresh: list[str] = []
    if wanted > 0:
        ready = (
            select(rollout_group.c.id)
            .where(
                rollout_group.c.run_id == run,
                rollout_group.c.purpose == Purpose.TRAIN.value,
                rollout_group.c.state == GroupState.READY.value,
            )
            .order_by(rollout_group.c.closed_at, rollout_group.c.id)
            .limit(wanted)
            .with_for_update(skip_locked=True)
        )
        fresh = list(tx.conn.execute(ready).scalars())
        if len(fresh) < wanted:
            return []
    expires = tx.now + timedelta(seconds=seconds)
    if held:
        tx.conn.execute(
            update(lease).where(lease.c.group_id.in_(held), lease.c.ended_at.is_(None)).values(expires_at=expires)
        )
    if fresh:
        move(tx.conn, fresh, GroupState.LEASED)
        row = {"run_id": run, "owner": owner, "taken_at": tx.now, "expires_at": expires}
        tx.conn.execute(insert(lease), [dict(row, group_id=group) for group in fresh])
    return held + fresh


@operation
def release(tx: Transaction, *, run: str, owner: str) -> list[str]:
    """Gives all that ``owner`` holds back to the queue; which groups those were. Raises NotFound."""
    lock_run(tx, run)
    held = held_by(tx, run, owner)
    _give_back(tx, held, "released")
    return held


@operation
def expire_groups(tx: Transaction, *, run: str, owner: str, groups: Sequence[str], reason: str) -> None:
    """Take groups of ``run`` that are ready, or leased to ``owner``, out of the queue for good.

    Raises:
        LeaseLost: another owner leases one of ``groups``; nothing was expired.
        StoreConflict: one is neither ready nor leased.
        NotFound: the store has no such run, or the run no such group.
    """
    lock_run(tx, run)
    leased = {name for name, state in states_of(tx.conn, groups, run=run).items() if state is GroupState.LEASED}
    if lost := sorted(leased - set(held_by(tx, run, owner))):
        raise LeaseLost(f"{owner} does not hold group {lost[0]} ({len(lost)} of {len(groups)}); it cannot expire")
    moved = move(tx.conn, groups, GroupState.EXPIRED, reason=reason)
    end_leases(tx, moved, "expired")


def end_leases(tx: Transaction, groups: Sequence[str], outcome: str) -> None:
    """Ends the leases held on ``groups``."""
    if groups:
        held = update(lease).where(lease.c.group_id.in_(groups), lease.c.ended_at.is_(None))
        tx.conn.execute(held.values(ended_at=tx.now, outcome=outcome))


def _give_back(tx: Transaction, groups: Sequence[str], outcome: str) -> None:
    if groups:
        move(tx.conn, groups, GroupState.READY)
        end_leases(tx, groups, outcome)


def held_by(tx: Transaction, run: str, owner: str) -> list[str]:
    mine = (lease.c.run_id == run) & (lease.c.owner == owner) & lease.c.ended_at.is_(None)
    return list(tx.conn.execute(select(lease.c.group_id).where(mine).order_by(lease.c.id)).scalars())
