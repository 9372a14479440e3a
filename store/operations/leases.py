"""Leases: the learner takes ready groups from the queue, returns them, or removes them.

An owner holds one batch at a time. A repeated call returns the groups that the owner holds already, so a lost answer
leases nothing twice.
"""

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import bindparam, cast, insert, null, select, union_all, update

from ...records import GroupState, Purpose
from ..errors import LeaseLost
from ..schema import KEYS_MAX, lease, rollout_group
from .group_states import states_of, transition
from .runs import lock_run
from .transaction import Transaction, operation

_LEASED = (
    select(
        rollout_group.c.id,
        rollout_group.c.no,
        lease.c.owner,
        lease.c.expires_at,
        lease.c.taken_at.label("since"),
        lease.c.no.label("place"),
    )
    .join(lease, lease.c.group_no == rollout_group.c.no)
    .where(lease.c.run_no == bindparam("run_no"), lease.c.ended_at.is_(None))
)
_READY = (
    select(
        rollout_group.c.id,
        rollout_group.c.no,
        cast(null(), lease.c.owner.type).label("owner"),
        cast(null(), lease.c.expires_at.type).label("expires_at"),
        rollout_group.c.closed_at,
        rollout_group.c.no.label("place"),
    )
    .where(
        rollout_group.c.run_no == bindparam("run_no"),
        rollout_group.c.purpose == Purpose.TRAIN.value,
        rollout_group.c.state == GroupState.READY.value,
    )
    .order_by(rollout_group.c.closed_at, rollout_group.c.no)
    .limit(bindparam("count"))
    .subquery()
)
_QUEUE = union_all(_LEASED, select(_READY)).order_by("since", "place")
"""The leased groups of a run and its oldest ready ones, which have no owner. The lock of the run keeps them as they
are: no other driver writes meanwhile."""


@operation
def lease_groups(
    tx: Transaction, *, run: str, owner: str, count: int, timeout_s: float, epoch: int | None = None
) -> list[str]:
    """Lease ``count`` groups to ``owner`` for ``timeout_s`` seconds, and return their ids.

    Those are the groups that ``owner`` holds, then the oldest ready ones; none, if that makes fewer than ``count``.

    Overdue leases of other owners return to ``ready`` first; those of ``owner`` are extended.
    """
    run_no = lock_run(tx, run, epoch).no
    queue = tx.conn.execute(_QUEUE, {"run_no": run_no, "count": count}).all()
    held = [one for one in queue if one.owner == owner]
    overdue = [one.id for one in queue if one.owner not in (None, owner) and one.expires_at < tx.now]
    if overdue:
        _return_to_queue(tx, overdue, "overdue")
        queue = tx.conn.execute(_QUEUE, {"run_no": run_no, "count": count}).all()
    wanted = max(count - len(held), 0)
    fresh = [one for one in queue if one.owner is None][:wanted]
    if len(fresh) < wanted:
        return []
    expires = tx.now + timedelta(seconds=timeout_s)
    if fresh:
        transition(tx.conn, [one.id for one in fresh], GroupState.LEASED)
        row = {"run_no": run_no, "owner": owner, "taken_at": tx.now, "expires_at": expires}
        tx.conn.execute(insert(lease), [dict(row, group_no=one.no) for one in fresh])
    mine = (lease.c.run_no == run_no) & (lease.c.owner == owner) & lease.c.ended_at.is_(None)
    tx.conn.execute(update(lease).where(mine).values(expires_at=expires))
    return [one.id for one in (*held, *fresh)]


@operation
def release(tx: Transaction, *, run: str, owner: str, epoch: int | None = None) -> list[str]:
    """Return every group that ``owner`` holds to the queue, and return their ids. Raises NotFound, Fenced."""
    held = groups_held_by(tx, lock_run(tx, run, epoch).no, owner)
    _return_to_queue(tx, held, "released")
    return held


@operation
def expire_groups(
    tx: Transaction, *, run: str, owner: str, groups: Sequence[str], reason: str, epoch: int | None = None
) -> None:
    """Expire groups of ``run`` that are ready, or leased to ``owner``.

    Raises:
        LeaseLost: another owner leases one of ``groups``; nothing was expired.
        StoreConflict: one is neither ready nor leased.
    """
    run_no = lock_run(tx, run, epoch).no
    leased = {name for name, state in states_of(tx.conn, groups, run=run).items() if state is GroupState.LEASED}
    if lost := sorted(leased - set(groups_held_by(tx, run_no, owner))):
        raise LeaseLost(f"{owner} does not hold group {lost[0]} ({len(lost)} of {len(groups)}); nothing expired")
    moved = transition(tx.conn, groups, GroupState.EXPIRED, reason=reason)
    end_leases(tx, moved, "expired")


def end_leases(tx: Transaction, groups: Sequence[str], outcome: str) -> None:
    """End the leases held on ``groups`` with ``outcome``."""
    for start in range(0, len(groups), KEYS_MAX):
        nos = select(rollout_group.c.no).where(rollout_group.c.id.in_(groups[start : start + KEYS_MAX]))
        held = lease.c.group_no.in_(nos) & lease.c.ended_at.is_(None)
        tx.conn.execute(update(lease).where(held).values(ended_at=tx.now, outcome=outcome))


def _return_to_queue(tx: Transaction, groups: Sequence[str], outcome: str) -> None:
    if groups:
        transition(tx.conn, groups, GroupState.READY)
        end_leases(tx, groups, outcome)


def groups_held_by(tx: Transaction, run_no: int, owner: str) -> list[str]:
    """Return the ids of the groups that ``owner`` leases, oldest lease first."""
    leased = tx.conn.execute(_LEASED.order_by("place"), {"run_no": run_no})
    return [one.id for one in leased if one.owner == owner]
