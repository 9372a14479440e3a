"""Reads that sum a run up: what its groups came to, and what its updates were made of. Surviving history only."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, RowMapping, and_, false, func, select

from ...records import SCORED_STATUSES, GroupState, Outcome, Purpose, Status
from ..operations.group_states import RUN_ENDED
from ..schema import batch_item, policy_version, rollout_group, train_batch, trajectory

NO_FAILURES = [status.value for status in (*SCORED_STATUSES, Status.RUNNING)]
"""The statuses of a trajectory that has not failed."""


@dataclass(frozen=True, slots=True)
class RunTotals:
    """A run in a few numbers."""

    trajectories: int
    """Played for training, whatever came of them."""
    consumed: int
    max_staleness: int


def run_totals(conn: Connection, run: str) -> RunTotals:
    """Sums over a run; zeros for one that has not begun."""
    played = select(func.count()).where(trajectory.c.run_id == run, trajectory.c.purpose == Purpose.TRAIN.value)
    used = (
        select(func.count(), func.coalesce(func.max(batch_item.c.max_staleness), 0))
        .select_from(batch_item)
        .join(
            policy_version,
            and_(policy_version.c.run_id == batch_item.c.run_id, policy_version.c.id == batch_item.c.version_id),
        )
        .where(batch_item.c.run_id == run, policy_version.c.abandoned == false())
    )
    consumed, oldest = conn.execute(used).one()
    return RunTotals(conn.execute(played).scalar_one(), consumed, oldest)


def batch_metrics(conn: Connection, run: str) -> list[dict[str, Any]]:
    """The metrics of each surviving update, with its ``update`` and ``version``, in order."""
    which = (
        select(train_batch.c.update_no, train_batch.c.version_id, train_batch.c.metrics)
        .where(train_batch.c.run_id == run, train_batch.c.abandoned == false())
        .order_by(train_batch.c.update_no)
    )
    return [{**metrics, "update": update, "version": version} for update, version, metrics in conn.execute(which)]


def statuses(conn: Connection, run: str) -> dict[str, int]:
    """How many of a run's trajectories stand how, whatever they were played for."""
    counts = (
        select(trajectory.c.status, func.count())
        .where(trajectory.c.run_id == run)
        .group_by(trajectory.c.status)
        .order_by(trajectory.c.status)
    )
    return {status: count for status, count in conn.execute(counts)}


def failures(conn: Connection, run: str) -> dict[str, int]:
    """How many of a run's training trajectories ended without an outcome, by how they ended."""
    counts = (
        select(trajectory.c.status, func.count())
        .where(trajectory.c.run_id == run, trajectory.c.purpose == Purpose.TRAIN.value)
        .where(trajectory.c.status.not_in(NO_FAILURES))
        .group_by(trajectory.c.status)
        .order_by(trajectory.c.status)
    )
    return {status: count for status, count in conn.execute(counts)}


def failed_for_good(conn: Connection, run: str) -> list[RowMapping]:
    """The trajectories of a run that ended without an outcome and were not played again, oldest first."""
    later = trajectory.alias("later")
    again = select(later.c.id).where(
        later.c.group_id == trajectory.c.group_id,
        later.c.member == trajectory.c.member,
        later.c.attempt > trajectory.c.attempt,
    )
    which = (
        select(trajectory)
        .where(trajectory.c.run_id == run, trajectory.c.status.not_in(NO_FAILURES), ~again.exists())
        .order_by(trajectory.c.created_at, trajectory.c.id)
    )
    return list(conn.execute(which).mappings())


ACTIVE = (GroupState.OPEN, GroupState.READY, GroupState.LEASED)
"""The states of a group that is under way or waits to be trained on."""


def active_groups(conn: Connection, run: str) -> dict[GroupState, int]:
    """How many training groups are in each active state. Its cost does not grow with the groups that are done."""
    counts = (
        select(rollout_group.c.state, func.count())
        .where(
            rollout_group.c.run_id == run,
            rollout_group.c.purpose == Purpose.TRAIN.value,
            rollout_group.c.state.in_([state.value for state in ACTIVE]),
        )
        .group_by(rollout_group.c.state)
    )
    return {GroupState(state): count for state, count in conn.execute(counts)}


def open_at_the_end(conn: Connection, run: str) -> int:
    """How many of the training groups that failed did so only because the run ended while they were open."""
    which = select(func.count()).where(
        rollout_group.c.run_id == run,
        rollout_group.c.purpose == Purpose.TRAIN.value,
        rollout_group.c.state == GroupState.FAILED.value,
        rollout_group.c.reason == RUN_ENDED,
    )
    return conn.execute(which).scalar_one()


def next_group(conn: Connection, run: str) -> int:
    """A number above that of every group ever opened for training in a run; ids are ``run:number``."""
    which = select(rollout_group.c.id).where(
        rollout_group.c.run_id == run, rollout_group.c.purpose == Purpose.TRAIN.value
    )
    numbers = (name.rpartition(":")[2] for name in conn.execute(which).scalars())
    return max((int(number) for number in numbers if number.isdecimal()), default=-1) + 1


def members(conn: Connection, group: str) -> list[Outcome]:
    """Return how the latest attempt of each member of a group stands, by member."""
    rows = conn.execute(
        select(trajectory).where(trajectory.c.group_id == group).order_by(trajectory.c.member, trajectory.c.attempt)
    )
    latest = {row.member: row for row in rows}
    return [
        Outcome(
            trajectory=row.id,
            member=row.member,
            attempt=row.attempt,
            status=Status(row.status),
            reward=row.reward,
            success=row.success,
            turns=row.n_steps,
            tokens=row.n_tokens,
            error=row.error,
        )
        for row in latest.values()
    ]


def group_counts(conn: Connection, run: str) -> dict[GroupState, int]:
    """How many training groups of a run are in each state: what capacity is reckoned from."""
    counts = (
        select(rollout_group.c.state, func.count())
        .where(rollout_group.c.run_id == run, rollout_group.c.purpose == Purpose.TRAIN.value)
        .group_by(rollout_group.c.state)
    )
    found = {GroupState(state): count for state, count in conn.execute(counts)}
    return {state: found.get(state, 0) for state in GroupState}


def accounting(conn: Connection, run: str, purpose: Purpose = Purpose.TRAIN) -> dict[str, int]:
    """Where a run's trajectories went: submitted = accepted + filtered + failed + running.

    ``running`` plays or waits for its group to close; ``failed`` ended without an outcome, or with too few others;
    ``filtered`` is an outcome whose group was not worth training on or became too old; ``accepted`` is the rest.
    """
    counts = (
        select(trajectory.c.status, rollout_group.c.state, func.count())
        .join_from(trajectory, rollout_group)
        .where(trajectory.c.run_id == run, trajectory.c.purpose == purpose.value)
        .group_by(trajectory.c.status, rollout_group.c.state)
    )
    total = dict.fromkeys(("submitted", "accepted", "filtered", "failed", "running"), 0)
    for status, state, count in conn.execute(counts):
        total["submitted"] += count
        total[_fate(Status(status), GroupState(state))] += count
    return total


def _fate(status: Status, state: GroupState) -> str:
    if status is Status.RUNNING:
        return "running"
    if status not in (Status.COMPLETED, Status.TRUNCATED) or state is GroupState.FAILED:
        return "failed"
    if state is GroupState.OPEN:
        return "running"
    return "filtered" if state in (GroupState.FILTERED, GroupState.EXPIRED) else "accepted"
