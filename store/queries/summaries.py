"""Counts and sums over a run: its trajectories and its updates. Surviving history only."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, and_, false, func, select, true

from ...records import SCORED_STATUSES, EndedBy, GroupState, Purpose, Status
from ..schema import batch_item, no_of, policy_version, rollout_group, train_batch, trajectory
from ..schema import run as run_table
from .lists import TRAJECTORIES, TrajectoryRow

NO_FAILURES = [status.value for status in (*SCORED_STATUSES, Status.RUNNING)]
"""The statuses that are not failures."""
_DROPPED = trajectory.c.ended_by == EndedBy.CONTROLLER.value
"""Whether the rollout controller dropped a trajectory: its status is cancelled, but not a failure."""


@dataclass(frozen=True, slots=True)
class RunTotals:
    """Totals of a run. Trajectories that a replay buffer reused count once, in the batch in which they were fresh."""

    trajectories: int
    """Trajectories for training, with any status."""
    consumed: int
    max_staleness: int


def run_totals(conn: Connection, run: str) -> RunTotals:
    """Return the totals of a run; zeros for a run that is not in the store."""
    played = select(func.count()).where(
        trajectory.c.run_no == no_of(run_table, run), trajectory.c.purpose == Purpose.TRAIN.value
    )
    used = (
        select(func.count(), func.coalesce(func.max(batch_item.c.max_staleness), 0))
        .select_from(batch_item)
        .join(
            policy_version,
            and_(policy_version.c.run_no == batch_item.c.run_no, policy_version.c.id == batch_item.c.version_id),
        )
        .where(
            batch_item.c.run_no == no_of(run_table, run),
            batch_item.c.fresh == true(),
            policy_version.c.abandoned == false(),
        )
    )
    consumed, oldest = conn.execute(used).one()
    return RunTotals(conn.execute(played).scalar_one(), consumed, oldest)


def batch_metrics(conn: Connection, run: str) -> list[dict[str, Any]]:
    """Return the metrics of each surviving update with its ``update`` and ``version``, in order."""
    which = (
        select(train_batch.c.update_no, train_batch.c.version_id, train_batch.c.metrics)
        .where(train_batch.c.run_no == no_of(run_table, run), train_batch.c.abandoned == false())
        .order_by(train_batch.c.update_no)
    )
    return [{**metrics, "update": update, "version": version} for update, version, metrics in conn.execute(which)]


def status_counts(conn: Connection, run: str) -> dict[str, int]:
    """Return how many trajectories of a run have each status, for training and evaluation together."""
    counts = (
        select(trajectory.c.status, func.count())
        .where(trajectory.c.run_no == no_of(run_table, run))
        .group_by(trajectory.c.status)
        .order_by(trajectory.c.status)
    )
    return {status: count for status, count in conn.execute(counts)}  # noqa: C416


def failure_counts(conn: Connection, run: str) -> dict[str, int]:
    """Return how many training trajectories of a run failed, by status."""
    counts = (
        select(trajectory.c.status, func.count())
        .where(trajectory.c.run_no == no_of(run_table, run), trajectory.c.purpose == Purpose.TRAIN.value)
        .where(trajectory.c.status.not_in(NO_FAILURES), ~_DROPPED)
        .group_by(trajectory.c.status)
        .order_by(trajectory.c.status)
    )
    return {status: count for status, count in conn.execute(counts)}  # noqa: C416


def failed_for_good(conn: Connection, run: str) -> list[TrajectoryRow]:
    """Return the failed trajectories of a run that were not retried, oldest first."""
    later = trajectory.alias("later")
    again = select(later.c.no).where(
        later.c.group_no == trajectory.c.group_no,
        later.c.member == trajectory.c.member,
        later.c.attempt > trajectory.c.attempt,
    )
    of_run = trajectory.c.run_no == no_of(run_table, run)
    failed = TRAJECTORIES.rows.where(of_run, trajectory.c.status.not_in(NO_FAILURES), ~_DROPPED, ~again.exists())
    return TRAJECTORIES.select(conn, failed.order_by(trajectory.c.created_at, trajectory.c.no))


def accounting(conn: Connection, run: str, purpose: Purpose = Purpose.TRAIN) -> dict[str, int]:
    """Return the fate of a run's trajectories: submitted = accepted + filtered + failed + running.

    * ``running``: it plays, or waits for its group to close and to be scored;
    * ``failed``: it ended without an outcome, or too few members of its group survived;
    * ``filtered``: a filter rejected its group, the group expired, or the rollout controller dropped the trajectory;
    * ``accepted``: every other trajectory.
    """
    counts = (
        select(trajectory.c.status, rollout_group.c.state, func.count())
        .join_from(trajectory, rollout_group)
        .where(trajectory.c.run_no == no_of(run_table, run), trajectory.c.purpose == purpose.value)
        .group_by(trajectory.c.status, rollout_group.c.state)
    )
    total = dict.fromkeys(("submitted", "accepted", "filtered", "failed", "running"), 0)
    for status, state, count in conn.execute(counts):
        total["submitted"] += count
        total[_account(Status(status), GroupState(state))] += count
    dropped = select(func.count()).where(
        trajectory.c.run_no == no_of(run_table, run), trajectory.c.purpose == purpose.value, _DROPPED
    )
    count = conn.execute(dropped).scalar_one()
    total["failed"] -= count
    total["filtered"] += count
    return total


def _account(status: Status, state: GroupState) -> str:
    if status is Status.RUNNING:
        return "running"
    if status not in (Status.COMPLETED, Status.TRUNCATED) or state is GroupState.FAILED:
        return "failed"
    if state in (GroupState.OPEN, GroupState.SCORING):
        return "running"
    return "filtered" if state in (GroupState.FILTERED, GroupState.EXPIRED) else "accepted"
