"""A run with the state of its driver, its counts and sums, and everything that its page shows.

The counts are those of the surviving history.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Integer, and_, cast, false, func, select, true

from ...records import SCORED_STATUSES, EndedBy, GroupState, PolicyVersion, Purpose, Status
from ..database import Database
from ..operations.group_states import RUN_ENDED
from ..run_lock import Driver, driver_of
from ..schema import FAILED, RESULT, batch_item, policy_version, rollout_group, train_batch, trajectory
from ..schema import run as run_table
from .conditions import counts_by, of_run, row_count, surviving, training
from .groups import cancelled_groups, group_counts
from .lineage import BestCheckpoint, best_checkpoint, latest_checkpoint
from .lists import RUNS, TRAJECTORIES, RunRow, TrajectoryRow, find_run, list_runs
from .rewards import RewardSet, reward_sets
from .updates import ALL, Updates, idle_updates, newest_update

DROPPED = trajectory.c.ended_by == EndedBy.CONTROLLER.value
"""Whether the rollout controller dropped a trajectory: its status is cancelled, but not a failure."""


_CUT_OFF = and_(rollout_group.c.state == GroupState.FAILED.value, rollout_group.c.reason == RUN_ENDED)
"""Whether a group failed only because its run ended."""


@dataclass(frozen=True, slots=True)
class RunTotals:
    """Totals of a run. Trajectories that a replay buffer reused count once, in the batch in which they were fresh."""

    trajectories: int
    """Trajectories for training, with any status."""
    consumed: int
    max_staleness: int


def run_totals(conn: Connection, run: str) -> RunTotals:
    """Return the totals of a run; zeros for a run that is not in the store."""
    both = and_(policy_version.c.run_no == batch_item.c.run_no, policy_version.c.id == batch_item.c.version_id)
    used = (
        select(func.count(), func.coalesce(func.max(batch_item.c.max_staleness), 0))
        .select_from(batch_item)
        .join(policy_version, both)
        .where(of_run(batch_item, run), batch_item.c.fresh == true(), policy_version.c.abandoned == false())
    )
    return RunTotals(row_count(conn, training(trajectory, run)), *conn.execute(used).one())


def batch_metrics(conn: Connection, run: str, updates: Updates = ALL) -> list[dict[str, Any]]:
    """Return the metrics of each surviving update of ``updates`` with its ``update`` and ``version``, in order."""
    which = (
        select(train_batch.c.update_no, train_batch.c.version_id, train_batch.c.metrics)
        .where(surviving(train_batch, run), updates.contain(train_batch.c.update_no))
        .order_by(train_batch.c.update_no)
    )
    return [{**metrics, "update": update, "version": version} for update, version, metrics in conn.execute(which)]


def batch_values(conn: Connection, run: str, name: str, updates: Updates = ALL) -> dict[int, float | None]:
    """Return one metric of each surviving update of ``updates`` by number, in order; None where it is missing."""
    value = train_batch.c.metrics[name].as_float()
    which = (
        select(train_batch.c.update_no, value)
        .where(surviving(train_batch, run), updates.contain(train_batch.c.update_no))
        .order_by(train_batch.c.update_no)
    )
    return dict(map(tuple, conn.execute(which)))


def update_times(conn: Connection, run: str, updates: Updates = ALL) -> dict[int, datetime]:
    """Return when each surviving update of ``updates`` was recorded, in order."""
    which = (
        select(train_batch.c.update_no, train_batch.c.created_at)
        .where(surviving(train_batch, run), updates.contain(train_batch.c.update_no))
        .order_by(train_batch.c.update_no)
    )
    return dict(map(tuple, conn.execute(which)))


def status_counts(conn: Connection, run: str) -> dict[str, int]:
    """Return how many trajectories of a run have each status, for training and evaluation together."""
    return counts_by(conn, trajectory.c.status, of_run(trajectory, run))


def failure_counts(conn: Connection, run: str) -> dict[str, int]:
    """Return how many training trajectories of a run failed, by status, without those that its end cut off."""
    failed = FAILED & ~DROPPED
    in_group = trajectory.c.group_no == rollout_group.c.no
    return counts_by(conn, trajectory.c.status, training(trajectory, run), failed, in_group, ~_CUT_OFF)


def cut_off(conn: Connection, run: str) -> int:
    """Return how many training trajectories belong to groups that failed only because the run ended."""
    in_group = trajectory.c.group_no == rollout_group.c.no
    return row_count(conn, training(rollout_group, run), in_group, _CUT_OFF, ~DROPPED)


def failed_for_good(conn: Connection, run: str) -> list[TrajectoryRow]:
    """Return the failed trajectories of a run that were not retried, oldest first."""
    later = trajectory.alias("later")
    again = select(later.c.no).where(
        later.c.group_no == trajectory.c.group_no,
        later.c.member == trajectory.c.member,
        later.c.attempt > trajectory.c.attempt,
    )
    failed = FAILED & ~DROPPED & ~again.exists()
    which = TRAJECTORIES.rows.where(of_run(trajectory, run), failed)
    return TRAJECTORIES.select(conn, which.order_by(trajectory.c.created_at, trajectory.c.no))


def accounting(conn: Connection, run: str, purpose: Purpose = Purpose.TRAIN) -> dict[str, int]:
    """Return the fate of a run's trajectories: submitted = accepted + filtered + failed + running.

    * ``running``: it plays, or waits for its group to close and to be scored;
    * ``failed``: it ended without an outcome, or too few members of its group survived;
    * ``filtered``: a filter rejected its group, the group expired, or the rollout controller dropped the trajectory;
    * ``accepted``: every other trajectory.
    """
    of_purpose = of_run(rollout_group, run), rollout_group.c.purpose == purpose.value
    closed, state = rollout_group.c.n_trajectories, rollout_group.c.state
    size = func.coalesce(
        closed, select(func.count()).where(trajectory.c.group_no == rollout_group.c.no).scalar_subquery()
    )
    total = dict.fromkeys(("submitted", "accepted", "filtered", "failed", "running"), 0)
    for in_state, number in conn.execute(select(state, func.sum(size)).where(*of_purpose).group_by(state)):
        total["submitted"] += number
        total[_account(Status.COMPLETED, GroupState(in_state), "")] += number
    columns = trajectory.c.status, state, trajectory.c.ended_by
    for unscored in (FAILED, trajectory.c.ended_at.is_(None)):  # few: those without an outcome
        which = select(*columns, func.count()).join_from(trajectory, rollout_group)
        which = which.where(of_run(trajectory, run), trajectory.c.purpose == purpose.value, unscored)
        for status, in_state, ended_by, number in conn.execute(which.group_by(*columns)):
            total[_account(Status.COMPLETED, GroupState(in_state), "")] -= number
            total[_account(Status(status), GroupState(in_state), ended_by)] += number
    return total


def _account(status: Status, state: GroupState, ended_by: str) -> str:
    if status is Status.RUNNING:
        return "running"
    if ended_by == EndedBy.CONTROLLER:
        return "filtered"
    if status not in SCORED_STATUSES or state is GroupState.FAILED:
        return "failed"
    if state in (GroupState.OPEN, GroupState.SCORING):
        return "running"
    return "filtered" if state in (GroupState.FILTERED, GroupState.EXPIRED) else "accepted"


@dataclass(frozen=True, slots=True)
class FilteredGroups:
    """The training groups of a run that a filter rejected for one reason."""

    reason: str
    """The name of the filter, and its reason."""
    groups: int
    mean_return: float
    """Of the scored members, by the rewards of the environment."""
    solved: int
    """Groups in which every counted member succeeded."""
    unsolved: int
    """Groups in which none did."""


def filtered_groups(conn: Connection, run: str) -> list[FilteredGroups]:
    """Return the training groups that filters rejected, by reason, the most frequent reason first."""
    result, total = cast(RESULT, Integer), func.sum(trajectory.c.reward)
    of_group = (
        select(rollout_group.c.reason, func.min(result).label("least"), func.max(result).label("most"))
        .add_columns(total.label("total"), func.count().label("members"))
        .join_from(rollout_group, trajectory, trajectory.c.group_no == rollout_group.c.no)
        .where(training(rollout_group, run), rollout_group.c.state == GroupState.FILTERED.value)
        .where(trajectory.c.status.in_([status.value for status in SCORED_STATUSES]))
        .group_by(rollout_group.c.no, rollout_group.c.reason)
        .subquery()
    )
    columns, groups = of_group.c, func.count()
    solved, unsolved = (groups.filter(one) for one in (columns.least == 1, columns.most == 0))
    which = (
        select(columns.reason, groups, func.sum(columns.total) / func.sum(columns.members), solved, unsolved)
        .group_by(columns.reason)
        .order_by(groups.desc(), columns.reason)
    )
    return [FilteredGroups(*row) for row in conn.execute(which)]


INTERRUPTED = "interrupted"
"""The status of a run that its stored status calls running and whose driver is gone."""


@dataclass(frozen=True, slots=True)
class DrivenRun:
    """A run and the state of its driver."""

    run: RunRow
    driver: Driver | None
    """None for a run that ended."""

    @property
    def status(self) -> str:
        """Its stored status, or ``INTERRUPTED``."""
        return INTERRUPTED if self.driver is Driver.GONE else self.run.status


@dataclass(frozen=True, slots=True)
class RunDetails:
    """A run with its counts. The surviving history only, except for ``statuses``."""

    driven: DrivenRun
    updates: int
    checkpoint: PolicyVersion | None
    """The newest version with a checkpoint."""
    best: BestCheckpoint | None
    """The checkpoint with the highest success on held-out tasks."""
    idle_updates: int
    """Updates that trained on no token."""
    groups: Mapping[GroupState, int]
    """Training groups by state; the failed ones without the cancelled ones."""
    cancelled: int
    """Training groups that failed only because the run ended."""
    filtered: Sequence[FilteredGroups]
    statuses: Mapping[str, int]
    """Trajectories by status, for training and evaluation."""
    accounting: Mapping[str, int]
    failures: Mapping[str, int]
    """Failed training trajectories by status, without those that were cut off."""
    cut_off: int
    """Training trajectories of the cancelled groups; ``accounting`` counts them as failed."""
    last_metrics: Mapping[str, Any] | None
    """The metrics of the newest update."""
    reward_sets: Sequence[RewardSet]


def driven_run(database: Database, run: str) -> DrivenRun:
    """Return a run with its driver. Raises NotFound."""
    return driven_runs(database, [run])[0]


def driven_runs(database: Database, runs: Sequence[str]) -> list[DrivenRun]:
    """Return runs in the given order with their drivers. Raises NotFound."""
    with database.read() as conn:
        found = [find_run(conn, run) for run in runs]
    return _with_drivers(database, found)


def list_driven_runs(
    database: Database,
    *,
    limit: int,
    after: str | None = None,
    status: str | None = None,
    kind: str | None = None,
    name: str | None = None,
    environment: str | None = None,
) -> list[DrivenRun]:
    """Return a page of runs with their drivers, newest first; arguments are as for ``list_runs``.

    Args:
        status: as ``DrivenRun.status`` returns it.
        environment: id of one of the run's environments.
    """
    stored = "running" if status == INTERRUPTED else status
    found: list[DrivenRun] = []
    while True:
        with database.read() as conn:
            rows = list_runs(conn, limit=limit, after=after, status=stored, kind=kind, name=name)
        found += [
            driven
            for driven in _with_drivers(database, rows)
            if status in (None, driven.status) and environment in (None, *driven.run.environments)
        ]
        if len(rows) < limit or len(found) >= limit:
            return found[:limit]
        after = rows[-1].id


def run_details(database: Database, run: str) -> RunDetails:
    """Return a run with its counts, newest checkpoint, last metrics and reward sets. Raises NotFound."""
    driven = driven_run(database, run)
    with database.read() as conn:
        newest = newest_update(conn, run)
        made = select(func.max(policy_version.c.update_no)).where(surviving(policy_version, run))
        metrics = [] if newest is None else batch_metrics(conn, run, Updates(newest))
        groups, cancelled = group_counts(conn, run), cancelled_groups(conn, run)
        return RunDetails(
            driven=driven,
            updates=max(conn.execute(made).scalar_one() or 0, 0),
            checkpoint=latest_checkpoint(conn, run),
            best=best_checkpoint(conn, run),
            idle_updates=idle_updates(conn, run),
            groups={**groups, GroupState.FAILED: groups[GroupState.FAILED] - cancelled},
            cancelled=cancelled,
            filtered=filtered_groups(conn, run),
            statuses=status_counts(conn, run),
            accounting=accounting(conn, run),
            failures=failure_counts(conn, run),
            cut_off=cut_off(conn, run),
            last_metrics=metrics[-1] if metrics else None,
            reward_sets=reward_sets(conn, run),
        )


def _with_drivers(database: Database, rows: Sequence[RunRow]) -> list[DrivenRun]:
    drivers = {row.id: driver_of(database, row.id) for row in rows if row.status == "running"}
    if drivers:  # read again: a driver records the end of its run and then releases the lock
        with database.read() as conn:
            found = RUNS.select(conn, RUNS.rows.where(run_table.c.id.in_(list(drivers))))
        again = {row.id: row for row in found}
        rows = [again.get(row.id, row) for row in rows]
    return [DrivenRun(row, drivers.get(row.id) if row.status == "running" else None) for row in rows]
