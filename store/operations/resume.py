"""A resume: the history continues from a checkpoint. Later rows stay, flagged, and are never trained on.

The versions after the checkpoint are abandoned, with their batches. A group that they consumed is ready again if
surviving versions sampled all of its tokens and retention kept them; otherwise it expires. The same rule applies to
groups in the queue. A group that was not scored yet is scored by the resumed run, under the same rule.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Table, false, func, select, update

from ...records import GroupState, Status
from ..content.rows import Tally
from ..errors import NotFound, StoreConflict
from ..schema import among, batch_group, batch_item, metric, policy_version, rollout_group, train_batch, trajectory
from .endings import end_running
from .group_states import CONTENT_REMOVED, RESUME_TRANSITIONS, RUN_RESUMED, transition
from .leases import end_leases
from .runs import lock_run
from .transaction import Transaction, numbers_of, operation


@operation
def rewind(
    tx: Transaction,
    *,
    run: str,
    version: int | None,
    tallies: Mapping[str, Tally] | None = None,
    epoch: int | None = None,
) -> dict[str, int]:
    """Take a run whose processes have ended back to ``version`` (None: to its beginning), and return counts of changes.

    The counts: ``versions_abandoned``, ``trajectories_cancelled`` (they were running), ``trajectories_abandoned``
    (flagged), ``groups_failed`` (they were open), ``groups_ready`` (in the queue again), ``groups_expired``.

    Args:
        tallies: as for ``cancel_trajectories``.

    Raises:
        StoreConflict: ``version`` is itself abandoned.
    """
    run_no = lock_run(tx, run, epoch).no
    if version is not None:
        _check_surviving(tx, run, run_no, version)
    newest = -1 if version is None else version
    # The batches that are abandoned below, read first: their groups were consumed by no surviving update.
    unconsumed = _consumed_after(tx, run_no, newest)
    versions = _abandon_versions(tx, run_no, newest)
    failed = _fail_open_groups(tx, run_no)
    # Read after the open groups are locked and closed: a late worker can begin no trajectory from here on.
    running = select(trajectory.c.no).where(trajectory.c.run_no == run_no, trajectory.c.ended_at.is_(None))
    cancelled = end_running(tx, list(tx.conn.execute(running).scalars()), RUN_RESUMED, Status.CANCELLED, tallies)
    flagged = _flag_trajectories(tx, run_no, newest)
    leased = _in_state(tx, run_no, GroupState.LEASED)
    waiting = {*leased, *_in_state(tx, run_no, GroupState.READY), *unconsumed}
    flagged_groups = _flagged_groups(tx, run_no, newest)
    stale = waiting & flagged_groups
    unscored = flagged_groups & set(_in_state(tx, run_no, GroupState.SCORING))
    expired = transition(
        tx.conn,
        sorted(stale | unscored),
        GroupState.EXPIRED,
        reason="sampled by an abandoned version",
        table=RESUME_TRANSITIONS,
    )
    pruned = _pruned_groups(tx, waiting - stale)
    expired += transition(tx.conn, sorted(pruned), GroupState.EXPIRED, reason=CONTENT_REMOVED, table=RESUME_TRANSITIONS)
    ready = transition(tx.conn, sorted(waiting - stale - pruned), GroupState.READY, table=RESUME_TRANSITIONS)
    end_leases(tx, leased, "resumed")
    return {
        "versions_abandoned": versions,
        "trajectories_cancelled": cancelled,
        "trajectories_abandoned": flagged,
        "groups_failed": len(failed),
        "groups_ready": len(ready),
        "groups_expired": len(expired),
    }


def _fail_open_groups(tx: Transaction, run_no: int) -> Sequence[str]:
    """Close the open groups as failed, and return their ids."""
    opened = select(rollout_group.c.no, rollout_group.c.id).where(
        rollout_group.c.run_no == run_no, rollout_group.c.state == GroupState.OPEN.value
    )
    groups = tx.conn.execute(opened.order_by(rollout_group.c.no).with_for_update(key_share=True)).all()
    # Another statement: it sees the trajectories that were committed while the groups were waited for.
    members = select(trajectory.c.group_no, func.count()).group_by(trajectory.c.group_no)
    counts = dict(map(tuple, among(tx.conn, members, trajectory.c.group_no, [group.no for group in groups])))
    return transition(
        tx.conn,
        [group.id for group in groups],
        GroupState.FAILED,
        reason=RUN_RESUMED,
        table=RESUME_TRANSITIONS,
        closed_at=tx.now,
        of_group={group.id: {"n_trajectories": counts.get(group.no, 0)} for group in groups},
    )


def _check_surviving(tx: Transaction, run: str, run_no: int, version: int) -> None:
    key = (policy_version.c.run_no == run_no) & (policy_version.c.id == version)
    stored = tx.conn.execute(select(policy_version.c.abandoned).where(key)).one_or_none()
    if stored is None:
        raise NotFound(f"run {run} has no version {version}")
    if stored.abandoned:
        raise StoreConflict(
            f"version {version} of run {run} was abandoned by an earlier resume: use a surviving checkpoint"
        )


def _abandon_versions(tx: Transaction, run_no: int, newest: int) -> int:
    for table in (train_batch, batch_group, batch_item):
        _abandon(tx, table, (table.c.run_no == run_no) & (table.c.version_id > newest))
    later = (policy_version.c.run_no == run_no) & (policy_version.c.id > newest)
    count = _abandon(tx, policy_version, later)
    key = (policy_version.c.run_no == run_no) & ~policy_version.c.abandoned
    last = tx.conn.execute(
        select(policy_version.c.update_no).where(key, policy_version.c.id == newest)
    ).scalar_one_or_none()
    _abandon(tx, metric, (metric.c.run_no == run_no) & (metric.c.update_no > (-1 if last is None else last)))
    return count


def _abandon(tx: Transaction, table: Table, which: Any) -> int:
    """Flag rows, and return how many; ``turnwise db check`` compares the flag with that of their version."""
    return int(
        tx.conn.execute(update(table).where(which, table.c.abandoned == false()).values(abandoned=True)).rowcount
    )


def _flag_trajectories(tx: Transaction, run_no: int, newest: int) -> int:
    count = _abandon(tx, trajectory, (trajectory.c.run_no == run_no) & (trajectory.c.max_version > newest))
    _abandon(tx, rollout_group, rollout_group.c.no.in_(_with_flagged(run_no, newest)))
    return count


def _with_flagged(run_no: int, newest: int) -> Any:
    """Return the query of the groups in which a version after ``newest`` sampled a token."""
    return select(trajectory.c.group_no).where(trajectory.c.run_no == run_no, trajectory.c.max_version > newest)


def _flagged_groups(tx: Transaction, run_no: int, newest: int) -> set[str]:
    """Return the ids of the groups in which a version after ``newest`` sampled a token: earlier resumes moved the
    groups of the versions that they abandoned.
    """
    which = select(rollout_group.c.id).where(rollout_group.c.no.in_(_with_flagged(run_no, newest)))
    return set(tx.conn.execute(which).scalars())


def _pruned_groups(tx: Transaction, groups: Collection[str]) -> set[str]:
    """Return those of ``groups`` that lost the content of a trajectory to retention."""
    names = {no: name for name, no in numbers_of(tx.conn, rollout_group, groups).items()}
    pruned = select(trajectory.c.group_no).where(trajectory.c.pruned_at.is_not(None))
    return {names[no] for (no,) in among(tx.conn, pruned, trajectory.c.group_no, names)}


def _in_state(tx: Transaction, run_no: int, state: GroupState) -> Sequence[str]:
    which = select(rollout_group.c.id).where(rollout_group.c.run_no == run_no, rollout_group.c.state == state.value)
    return list(tx.conn.execute(which.order_by(rollout_group.c.no)).scalars())


def _consumed_after(tx: Transaction, run_no: int, newest: int) -> Sequence[str]:
    """Return the consumed groups that versions after ``newest`` consumed and no version up to it did.

    A group is consumed once by the surviving history, so only the batches that the resume abandons are read: the cost
    does not grow with the groups consumed before.
    """
    later = select(batch_group.c.group_no).where(
        batch_group.c.run_no == run_no,
        batch_group.c.version_id > newest,
        batch_group.c.fresh,
        batch_group.c.abandoned == false(),
    )
    which = select(rollout_group.c.id).where(
        rollout_group.c.no.in_(later), rollout_group.c.state == GroupState.CONSUMED.value
    )
    return list(tx.conn.execute(which).scalars())
