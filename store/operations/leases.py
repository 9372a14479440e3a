"""The learner's side of the queue: leasing ready groups, and acknowledging a batch with the version it made.

An owner holds one batch at a time: asked again, it gets what it already holds, so a lost answer leases nothing twice.
``acknowledge`` is the only way into ``consumed``, in the transaction that records the new version: a batch and its
version are both there or neither is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import insert, select, update
from sqlalchemy.exc import IntegrityError

from ...records import GroupState, Purpose
from ..errors import LeaseLost, NotFound, StoreConflict
from ..schema import batch_group, batch_item, lease, rollout_group, train_batch, trajectory
from .group_states import move, states_of
from .runs import add_version, lock_run, surviving_at
from .transaction import Transaction, operation


@dataclass(frozen=True, slots=True)
class BatchItem:
    """What one trajectory gave to one update. ``fresh`` is False for reuse that a ``ReplayPolicy`` declared."""

    trajectory: str
    tokens_trained: int
    max_staleness: int
    mean_advantage: float
    fresh: bool = True


@operation
def lease_groups(tx: Transaction, *, run: str, owner: str, count: int, seconds: float) -> list[str]:
    """Makes ``owner`` hold ``count`` groups for ``seconds``: those it holds, and the oldest ready ones; fewer than
    that: none ([]).

    Leases whose time is over go back to ``ready`` first, except the caller's own, which are prolonged.

    Raises:
        NotFound: there is no such run.
    """
    lock_run(tx, run)
    held = _held(tx, run, owner)
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
    held = _held(tx, run, owner)
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
    if lost := sorted(leased - set(_held(tx, run, owner))):
        raise LeaseLost(f"{owner} does not hold group {lost[0]} ({len(lost)} of {len(groups)}); it cannot expire")
    moved = move(tx.conn, groups, GroupState.EXPIRED, reason=reason)
    end_leases(tx, moved, "expired")


@operation
def acknowledge(
    tx: Transaction,
    *,
    run: str,
    owner: str,
    groups: Sequence[str],
    update: int,
    parent: int,
    items: Sequence[BatchItem],
    metrics: Mapping[str, Any],
) -> int:
    """Consumes the leased ``groups`` and records the version that update ``update`` made of ``parent``; its id.

    The same acknowledgement again gives the same id and changes nothing.

    Raises:
        LeaseLost: ``owner`` does not hold one of ``groups``; nothing was consumed.
        StoreConflict: ``parent`` is not the tip of the surviving history, update ``update`` exists with another
            batch, or a
            fresh trajectory was consumed before.
        NotFound: there is no such run or group.
    """
    lock_run(tx, run)
    stored = surviving_at(tx, run, update)
    if stored is not None:
        consumed = _groups_of(tx, run, stored.id)
        if stored.parent_id == parent and consumed == sorted(groups):
            return int(stored.id)
        raise StoreConflict(f"update {update} of run {run} is done: it made version {stored.id} from other groups")
    if lost := sorted(set(groups) - set(_held(tx, run, owner))):
        raise LeaseLost(f"{owner} no longer holds group {lost[0]} ({len(lost)} of {len(groups)}); lease a new batch")
    _check_items(tx, groups, items)
    version = add_version(tx, run=run, update=update, parent=parent)
    key = {"run_id": run, "version_id": version}
    batch = dict(key, update_no=update, owner=owner, metrics=dict(metrics), created_at=tx.now)
    tx.conn.execute(insert(train_batch), batch)
    if groups:
        move(tx.conn, groups, GroupState.CONSUMED)
        end_leases(tx, groups, "consumed")
        tx.conn.execute(insert(batch_group), [dict(key, group_id=group, fresh=True) for group in groups])
    if items:
        rows = [
            dict(
                key,
                trajectory_id=item.trajectory,
                tokens_trained=int(item.tokens_trained),
                max_staleness=int(item.max_staleness),
                mean_advantage=float(item.mean_advantage),
                fresh=item.fresh,
            )
            for item in items
        ]
        try:
            tx.conn.execute(insert(batch_item), rows)
        except IntegrityError as error:
            raise StoreConflict(
                f"update {update}: a trajectory of the batch was consumed before, or is in it twice"
            ) from error
    return version


def _check_items(tx: Transaction, groups: Sequence[str], items: Sequence[BatchItem]) -> None:
    table = trajectory
    columns = select(table.c.id, table.c.group_id, table.c.abandoned)
    found = {row.id: row for row in tx.conn.execute(columns.where(table.c.id.in_([item.trajectory for item in items])))}
    for item in items:
        row = found.get(item.trajectory)
        if row is None:
            raise NotFound(f"no trajectory {item.trajectory} in the store")
        if row.abandoned:
            raise StoreConflict(
                f"trajectory {row.id} was sampled by a version that a resume abandoned; it is never trained on"
            )
        if item.fresh and row.group_id not in groups:
            raise StoreConflict(
                f"trajectory {row.id} is of group {row.group_id}, which is not in the batch; declare it as reuse"
            )


def end_leases(tx: Transaction, groups: Sequence[str], outcome: str) -> None:
    """Ends the leases held on ``groups``."""
    if groups:
        held = update(lease).where(lease.c.group_id.in_(groups), lease.c.ended_at.is_(None))
        tx.conn.execute(held.values(ended_at=tx.now, outcome=outcome))


def _give_back(tx: Transaction, groups: Sequence[str], outcome: str) -> None:
    if groups:
        move(tx.conn, groups, GroupState.READY)
        end_leases(tx, groups, outcome)


def _held(tx: Transaction, run: str, owner: str) -> list[str]:
    mine = (lease.c.run_id == run) & (lease.c.owner == owner) & lease.c.ended_at.is_(None)
    return list(tx.conn.execute(select(lease.c.group_id).where(mine).order_by(lease.c.id)).scalars())


def _groups_of(tx: Transaction, run: str, version: int) -> list[str]:
    key = (batch_group.c.run_id == run) & (batch_group.c.version_id == version)
    return sorted(tx.conn.execute(select(batch_group.c.group_id).where(key)).scalars())
