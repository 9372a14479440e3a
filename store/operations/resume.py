"""A resume: the history continues from a checkpoint. Later rows stay, flagged, and are never trained on.

The versions after the checkpoint are abandoned, with their batches. A group that they consumed is ready again if
surviving versions sampled all of its tokens; otherwise it expires. The same rule applies to groups in the queue. A
group that was not scored yet is scored by the resumed run, under the same rule.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Table, false, select, update

from ...records import GroupState, Status
from ..errors import NotFound, StoreConflict
from ..schema import batch_group, batch_item, metric, policy_version, rollout_group, train_batch, trajectory
from .group_states import RESUME_TRANSITIONS, transition
from .leases import end_leases
from .runs import lock_run
from .trajectories import end_running
from .transaction import Transaction, operation

_CHUNK = 500
_REASON = "its run was resumed"


@operation
def rewind(tx: Transaction, *, run: str, version: int | None) -> dict[str, int]:
    """Take a run whose processes have ended back to ``version`` (None: to its beginning), and return counts of changes.

    The counts: ``versions_abandoned``, ``trajectories_cancelled`` (they were running), ``trajectories_abandoned``
    (flagged), ``groups_failed`` (they were open), ``groups_ready`` (in the queue again), ``groups_expired``.

    Raises:
        NotFound: the run or the version is not in the store.
        StoreConflict: ``version`` is itself abandoned.
    """
    lock_run(tx, run)
    if version is not None:
        _check_surviving(tx, run, version)
    newest = -1 if version is None else version
    versions = _abandon_versions(tx, run, newest)
    running = select(trajectory.c.id).where(trajectory.c.run_id == run, trajectory.c.status == Status.RUNNING.value)
    cancelled = end_running(tx, list(tx.conn.execute(running).scalars()), _REASON, Status.CANCELLED)
    failed = transition(
        tx.conn,
        _in_state(tx, run, GroupState.OPEN),
        GroupState.FAILED,
        reason=_REASON,
        table=RESUME_TRANSITIONS,
        closed_at=tx.now,
    )
    flagged = _flag_trajectories(tx, run, newest)
    leased = _in_state(tx, run, GroupState.LEASED)
    waiting = set(leased) | set(_in_state(tx, run, GroupState.READY)) | set(_unconsumed(tx, run))
    flagged_groups = _flagged_groups(tx, run)
    stale = waiting & flagged_groups
    unscored = flagged_groups & set(_in_state(tx, run, GroupState.SCORING))
    expired = transition(
        tx.conn,
        sorted(stale | unscored),
        GroupState.EXPIRED,
        reason="sampled by an abandoned version",
        table=RESUME_TRANSITIONS,
    )
    ready = transition(tx.conn, sorted(waiting - stale), GroupState.READY, table=RESUME_TRANSITIONS)
    for start in range(0, len(leased), _CHUNK):
        end_leases(tx, leased[start : start + _CHUNK], "resumed")
    return {
        "versions_abandoned": versions,
        "trajectories_cancelled": cancelled,
        "trajectories_abandoned": flagged,
        "groups_failed": len(failed),
        "groups_ready": len(ready),
        "groups_expired": len(expired),
    }


def _check_surviving(tx: Transaction, run: str, version: int) -> None:
    key = (policy_version.c.run_id == run) & (policy_version.c.id == version)
    stored = tx.conn.execute(select(policy_version.c.abandoned).where(key)).one_or_none()
    if stored is None:
        raise NotFound(f"run {run} has no version {version}")
    if stored.abandoned:
        raise StoreConflict(
            f"version {version} of run {run} was abandoned by an earlier resume: use a surviving checkpoint"
        )


def _abandon_versions(tx: Transaction, run: str, newest: int) -> int:
    for table in (train_batch, batch_group, batch_item):
        _abandon(tx, table, (table.c.run_id == run) & (table.c.version_id > newest))
    count = _abandon(tx, policy_version, (policy_version.c.run_id == run) & (policy_version.c.id > newest))
    key = (policy_version.c.run_id == run) & ~policy_version.c.abandoned
    last = tx.conn.execute(
        select(policy_version.c.update_no).where(key, policy_version.c.id == newest)
    ).scalar_one_or_none()
    _abandon(tx, metric, (metric.c.run_id == run) & (metric.c.update_no > (-1 if last is None else last)))
    return count


def _abandon(tx: Transaction, table: Table, which: Any) -> int:
    return int(
        tx.conn.execute(update(table).where(which, table.c.abandoned == false()).values(abandoned=True)).rowcount
    )


def _flag_trajectories(tx: Transaction, run: str, newest: int) -> int:
    count = _abandon(tx, trajectory, (trajectory.c.run_id == run) & (trajectory.c.max_version > newest))
    _abandon(tx, rollout_group, rollout_group.c.id.in_(_with_flagged(run)))
    return count


def _with_flagged(run: str) -> Any:
    return select(trajectory.c.group_id).where(trajectory.c.run_id == run, trajectory.c.abandoned)


def _flagged_groups(tx: Transaction, run: str) -> set[str]:
    return set(tx.conn.execute(_with_flagged(run).distinct()).scalars())


def _in_state(tx: Transaction, run: str, state: GroupState) -> Sequence[str]:
    which = select(rollout_group.c.id).where(rollout_group.c.run_id == run, rollout_group.c.state == state.value)
    return list(tx.conn.execute(which.order_by(rollout_group.c.id)).scalars())


def _unconsumed(tx: Transaction, run: str) -> Sequence[str]:
    """Return the groups in state ``consumed`` that no surviving batch consumes."""
    survives = select(batch_group.c.group_id).where(
        batch_group.c.group_id == rollout_group.c.id, batch_group.c.abandoned == false()
    )
    which = select(rollout_group.c.id).where(
        rollout_group.c.run_id == run, rollout_group.c.state == GroupState.CONSUMED.value, ~survives.exists()
    )
    return list(tx.conn.execute(which).scalars())
