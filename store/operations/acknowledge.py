"""The acknowledgement of a batch: the only way into state ``consumed``.

The same transaction records the new version, so a batch and the version it made are both stored or neither is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.exc import IntegrityError

from ...records import GroupState
from ..content.digests import digest_of
from ..errors import LeaseLost, NotFound, StoreConflict
from ..schema import among, batch_group, batch_item, rollout_group, train_batch, trajectory
from .group_states import transition
from .leases import end_leases, groups_held_by
from .runs import add_version, lock_run, surviving_version
from .transaction import Transaction, numbers_of, operation

_TRAJECTORIES = select(
    trajectory.c.no, trajectory.c.id, trajectory.c.abandoned, rollout_group.c.id.label("group_id")
).join(rollout_group, rollout_group.c.no == trajectory.c.group_no)


@dataclass(frozen=True, slots=True)
class BatchItem:
    """The contribution of one trajectory to one update. ``fresh`` is False for declared reuse by a replay buffer."""

    trajectory: str
    tokens_trained: int
    max_staleness: int
    mean_advantage: float
    turn_advantages: Mapping[int, float] = field(default_factory=dict)
    """Index of a turn -> mean over its trained tokens."""
    fresh: bool = True
    detail: bytes | None = None
    """What training the update again needs of this trajectory, in the trainer's encoding."""


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
    reused: Sequence[str] = (),
    recipe: Mapping[str, Any] | None = None,
    weights_hash: str = "",
    epoch: int | None = None,
) -> int:
    """Consume the leased ``groups``, record the version that ``update`` made from ``parent``, and return its id.

    The same acknowledgement again returns the same id and changes nothing.

    Args:
        groups: in the order of the batch, which is stored.
        reused: groups that a replay buffer added; they were consumed before and are not consumed again.
        recipe: what training the update again needs, besides the trajectories. JSON values.
        weights_hash: hash of the weights that the update made.

    Raises:
        LeaseLost: ``owner`` does not hold one of ``groups``; nothing was consumed.
        StoreConflict: ``parent`` is not the newest surviving version, ``update`` was made from another batch or made
            other weights, or a fresh trajectory was consumed before.
    """
    run_no = lock_run(tx, run, epoch).no
    head = {"run_no": run_no, "update_no": update, "epoch": epoch or 0, "metrics": dict(metrics)}
    head["recipe"] = None if recipe is None else dict(recipe)
    stored = surviving_version(tx, run_no, update)
    if stored is not None:
        head["version_id"] = stored.id
        repeated = batch_digest(head, *_rows(tx, head, groups, reused, items, _trajectories(tx, items)))
        if (stored.parent_id, stored.weights_hash, _digest(tx, head)) == (parent, weights_hash, repeated):
            return int(stored.id)
        raise StoreConflict(f"update {update} of run {run} already made version {stored.id} from another batch")
    if lost := sorted(set(groups) - set(groups_held_by(tx, run_no, owner))):
        raise LeaseLost(f"{owner} no longer holds group {lost[0]} ({len(lost)} of {len(groups)}); lease a new batch")
    known = _trajectories(tx, items)
    _check_items(known, groups, items)
    version = add_version(tx, run=run, update=update, parent=parent, weights_hash=weights_hash, epoch=epoch)
    head["version_id"] = version
    group_rows, item_rows = _rows(tx, head, groups, reused, items, known)
    digest = batch_digest(head, group_rows, item_rows)
    tx.conn.execute(insert(train_batch), dict(head, digest=digest, created_at=tx.now))
    if groups:
        transition(tx.conn, groups, GroupState.CONSUMED)
        end_leases(tx, groups, "consumed")
    if group_rows:
        tx.conn.execute(insert(batch_group), group_rows)
    if item_rows:
        try:
            tx.conn.execute(insert(batch_item), item_rows)
        except IntegrityError as error:
            raise StoreConflict(
                f"update {update}: a trajectory was consumed by an earlier update, or is in this batch twice"
            ) from error
    return version


def batch_digest(
    batch: Mapping[str, Any], groups: Sequence[Mapping[str, Any]], items: Sequence[Mapping[str, Any]]
) -> str:
    """Return the digest of a batch with its groups and items, each a row with at least the columns named here."""
    return digest_of(
        [
            *(batch[name] for name in ("run_no", "version_id", "update_no", "epoch", "metrics", "recipe")),
            [[row["idx"], row["group_no"], row["fresh"]] for row in sorted(groups, key=lambda row: row["idx"])],
            [
                [
                    *(row[name] for name in ("idx", "trajectory_no", "tokens_trained", "max_staleness")),
                    *(row[name] for name in ("mean_advantage", "turn_advantages", "fresh", "detail")),
                ]
                for row in sorted(items, key=lambda row: row["idx"])
            ],
        ]
    )


def _rows(
    tx: Transaction,
    head: Mapping[str, Any],
    groups: Sequence[str],
    reused: Sequence[str],
    items: Sequence[BatchItem],
    known: Mapping[str, Any],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows of ``batch_group`` and ``batch_item`` of the batch with row ``head``."""
    key = {"run_no": head["run_no"], "version_id": head["version_id"]}
    names = [*groups, *(name for name in dict.fromkeys(reused) if name not in set(groups))]
    nos = numbers_of(tx.conn, rollout_group, names)
    group_rows = [dict(key, group_no=nos[name], idx=idx, fresh=idx < len(groups)) for idx, name in enumerate(names)]
    item_rows = [
        dict(
            key,
            trajectory_no=known[item.trajectory].no,
            idx=idx,
            tokens_trained=int(item.tokens_trained),
            max_staleness=int(item.max_staleness),
            mean_advantage=float(item.mean_advantage),
            turn_advantages={str(turn): float(value) for turn, value in item.turn_advantages.items()},
            fresh=item.fresh,
            detail=item.detail,
        )
        for idx, item in enumerate(items)
    ]
    return group_rows, item_rows


def _digest(tx: Transaction, head: Mapping[str, Any]) -> str | None:
    """Return the digest of the stored batch of a version; None if it was made without one."""
    key = (train_batch.c.run_no == head["run_no"]) & (train_batch.c.version_id == head["version_id"])
    found: str | None = tx.conn.execute(select(train_batch.c.digest).where(key)).scalar_one_or_none()
    return found


def _trajectories(tx: Transaction, items: Sequence[BatchItem]) -> dict[str, Any]:
    """Return the rows of the items' trajectories by id. Raises NotFound."""
    names = [item.trajectory for item in items]
    found = {row.id: row for row in among(tx.conn, _TRAJECTORIES, trajectory.c.id, names)}
    if missing := [name for name in names if name not in found]:
        raise NotFound(f"no trajectory {missing[0]} in the store")
    return found


def _check_items(known: Mapping[str, Any], groups: Sequence[str], items: Sequence[BatchItem]) -> None:
    batch = set(groups)
    for item in items:
        row = known[item.trajectory]
        if row.abandoned:
            raise StoreConflict(
                f"trajectory {row.id} was sampled by a version that a resume abandoned; it is never trained on"
            )
        if item.fresh and row.group_id not in batch:
            raise StoreConflict(
                f"trajectory {row.id} is of group {row.group_id}, which is not in the batch; declare it as reuse"
            )
