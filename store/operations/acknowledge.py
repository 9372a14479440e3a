"""The acknowledgement of a batch: the only way into state ``consumed``.

The same transaction records the new version, so a batch and the version it made are both stored or neither is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.exc import IntegrityError

from ...records import GroupState
from ..errors import LeaseLost, NotFound, StoreConflict
from ..schema import batch_group, batch_item, train_batch, trajectory
from .group_states import transition
from .leases import end_leases, groups_held_by
from .runs import add_version, lock_run, surviving_version
from .transaction import Transaction, operation


@dataclass(frozen=True, slots=True)
class BatchItem:
    """The contribution of one trajectory to one update. ``fresh`` is False for declared reuse by a replay buffer."""

    trajectory: str
    tokens_trained: int
    max_staleness: int
    mean_advantage: float
    fresh: bool = True


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
    """Consume the leased ``groups``, record the version that ``update`` made from ``parent``, and return its id.

    The same acknowledgement again returns the same id and changes nothing.

    Raises:
        LeaseLost: ``owner`` does not hold one of ``groups``; nothing was consumed.
        StoreConflict: ``parent`` is not the newest surviving version, ``update`` was made from other groups, or a fresh
            trajectory was consumed before.
        NotFound: the run or a group is not in the store.
    """
    lock_run(tx, run)
    stored = surviving_version(tx, run, update)
    if stored is not None:
        consumed = _groups_of(tx, run, stored.id)
        if stored.parent_id == parent and consumed == sorted(groups):
            return int(stored.id)
        raise StoreConflict(f"update {update} of run {run} already made version {stored.id} from other groups")
    if lost := sorted(set(groups) - set(groups_held_by(tx, run, owner))):
        raise LeaseLost(f"{owner} no longer holds group {lost[0]} ({len(lost)} of {len(groups)}); lease a new batch")
    _check_items(tx, groups, items)
    version = add_version(tx, run=run, update=update, parent=parent)
    key = {"run_id": run, "version_id": version}
    batch = dict(key, update_no=update, owner=owner, metrics=dict(metrics), created_at=tx.now)
    tx.conn.execute(insert(train_batch), batch)
    if groups:
        transition(tx.conn, groups, GroupState.CONSUMED)
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
                f"update {update}: a trajectory was consumed by an earlier update, or is in this batch twice"
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


def _groups_of(tx: Transaction, run: str, version: int) -> list[str]:
    key = (batch_group.c.run_id == run) & (batch_group.c.version_id == version)
    return sorted(tx.conn.execute(select(batch_group.c.group_id).where(key)).scalars())
