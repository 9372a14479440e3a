"""Reads for replay buffers: the earlier groups and successes of a run, and demonstrations.

Only the surviving history is read: trajectories that an abandoned version sampled, and their groups, are left out. So
are groups that lost content to retention.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, exists, false, or_, select, true

from ...records import SCORED_STATUSES, SUCCESS_RETURN, GroupState, GroupSummary, Purpose, Source, Status, is_success
from ..schema import among, batch_group, no_of, policy_version, rollout_group, succeeded, task, train_batch, trajectory
from ..schema import run as run_table
from .rewards import OF_OWN, own

REUSABLE_STATES = frozenset(
    {GroupState.READY, GroupState.FILTERED, GroupState.LEASED, GroupState.CONSUMED, GroupState.EXPIRED}
)
"""The states of a group that was scored with at least two members."""

_member = trajectory.alias("member")


def group_summaries(
    conn: Connection,
    run: str,
    *,
    limit: int,
    task_id: str | None = None,
    states: Collection[GroupState] = REUSABLE_STATES,
    min_update: int | None = None,
) -> list[GroupSummary]:
    """Return at most ``limit`` scored training groups of a run, newest first.

    Args:
        task_id: only groups of this task.
        states: only groups in these states.
        min_update: only groups that this update or a later one consumed.
    """
    consumed = _consumed(run)
    statement = (
        select(
            rollout_group.c.id,
            task.c.id.label("task_id"),
            rollout_group.c.state,
            rollout_group.c.score_no,
            consumed.c.update_no,
        )
        .join(task, task.c.no == rollout_group.c.task_no)
        .join(consumed, consumed.c.group_no == rollout_group.c.no, isouter=True)
        .where(*_scored_groups(run, states))
        .order_by(rollout_group.c.score_no.desc())
        .limit(limit)
    )
    if task_id is not None:
        statement = statement.where(rollout_group.c.task_no == no_of(task, task_id))
    if min_update is not None:
        statement = statement.where(consumed.c.update_no >= min_update)
    rows = conn.execute(statement).all()
    members = _members(conn, [row.id for row in rows])
    return [
        GroupSummary(
            id=row.id,
            task=row.task_id,
            state=GroupState(row.state),
            score_number=row.score_no,
            update=row.update_no,
            oldest_policy=min((one.update_no for one in members[row.id] if one.update_no is not None), default=None),
            returns=[_total(one) for one in members[row.id]],
        )
        for row in rows
    ]


def newest_successes(conn: Connection, run: str, task_id: str, min_return: float, limit: int) -> list[str]:
    """Return the newest trajectories of a task that succeeded (``is_success`` of the shaped return), used or not."""
    columns = (trajectory.c.id, trajectory.c.status, trajectory.c.success, trajectory.c.reward, own.c.total)
    statement = (
        select(*columns)
        .join(rollout_group, rollout_group.c.no == trajectory.c.group_no)
        .join(own, OF_OWN, isouter=True)
        .where(
            *_scored_groups(run, REUSABLE_STATES),
            rollout_group.c.task_no == no_of(task, task_id),
            trajectory.c.source == Source.POLICY.value,
            _has_return(),
            or_(trajectory.c.success.is_(None), trajectory.c.success == true()),
        )
        .order_by(rollout_group.c.score_no.desc(), trajectory.c.member)
    )
    found: list[str] = []
    for row in conn.execute(statement):
        if len(found) == limit:
            break
        if is_success(row.success, Status(row.status), _total(row), min_return):
            found.append(row.id)
    return found


def newest_demonstrations(
    conn: Connection,
    *,
    limit: int,
    min_return: float = SUCCESS_RETURN,
    run: str | None = None,
    env_id: str | None = None,
    task_id: str | None = None,
) -> list[str]:
    """Return the newest completed and successful trajectories of source ``expert`` in the store, on tasks of the
    training split.

    Args:
        min_return: return of the environment from which an episode without a verdict is a success.
        run: only trajectories of this run.
        env_id: only trajectories of this environment.
        task_id: only trajectories of this task.
    """
    statement = (
        select(trajectory.c.id)
        .join(rollout_group, rollout_group.c.no == trajectory.c.group_no)
        .join(task, task.c.no == rollout_group.c.task_no)
        .where(
            trajectory.c.source == Source.EXPERT.value,
            trajectory.c.status == Status.COMPLETED.value,
            succeeded(min_return),
            trajectory.c.abandoned == false(),
            trajectory.c.pruned_at.is_(None),
            task.c.split == "train",
        )
        .order_by(trajectory.c.created_at.desc(), trajectory.c.no.desc())
        .limit(limit)
    )
    if run is not None:
        statement = statement.where(trajectory.c.run_no == no_of(run_table, run))
    if env_id is not None:
        statement = statement.where(trajectory.c.env_id == env_id)
    if task_id is not None:
        statement = statement.where(task.c.id == task_id)
    return list(conn.execute(statement).scalars())


def reused_groups(conn: Connection, run: str) -> set[str]:
    """Return the groups that surviving updates of a run reused as a whole; those of an offline run are of another."""
    which = (
        select(rollout_group.c.id)
        .join(batch_group, batch_group.c.group_no == rollout_group.c.no)
        .where(
            batch_group.c.run_no == no_of(run_table, run),
            batch_group.c.fresh == false(),
            batch_group.c.abandoned == false(),
        )
    )
    return set(conn.execute(which).scalars())


def groups_of(conn: Connection, trajectories: Sequence[str]) -> list[str]:
    """Return the groups of trajectories, each once, in the order of the trajectories."""
    both = select(trajectory.c.id, rollout_group.c.id.label("group_id"))
    which = both.join(rollout_group, rollout_group.c.no == trajectory.c.group_no)
    found = {row.id: row.group_id for row in among(conn, which, trajectory.c.id, trajectories)}
    return list(dict.fromkeys(found[name] for name in trajectories if name in found))


def surviving_groups(conn: Connection, run: str, groups: Sequence[str]) -> list[str]:
    """Return those of ``groups`` that are in the surviving history of the run, in the given order."""
    which = select(rollout_group.c.id).where(
        rollout_group.c.run_no == no_of(run_table, run),
        rollout_group.c.abandoned == false(),
    )
    kept = {name for (name,) in among(conn, which, rollout_group.c.id, groups)}
    return [name for name in groups if name in kept]


def surviving_trajectories(conn: Connection, run: str, trajectories: Sequence[str]) -> list[str]:
    """Return those of ``trajectories`` that are in the surviving history of the run, in the given order."""
    which = select(trajectory.c.id).where(
        trajectory.c.run_no == no_of(run_table, run), trajectory.c.abandoned == false()
    )
    kept = {name for (name,) in among(conn, which, trajectory.c.id, trajectories)}
    return [name for name in trajectories if name in kept]


def _consumed(run: str) -> Any:
    """Return a subquery: the groups that surviving updates consumed, with the number of the update."""
    same = (train_batch.c.run_no == batch_group.c.run_no) & (train_batch.c.version_id == batch_group.c.version_id)
    return (
        select(batch_group.c.group_no, train_batch.c.update_no)
        .join(train_batch, same)
        .where(
            batch_group.c.run_no == no_of(run_table, run),
            batch_group.c.fresh == true(),
            batch_group.c.abandoned == false(),
        )
        .subquery()
    )


def _scored_groups(run: str, states: Collection[GroupState]) -> list[ColumnElement[bool]]:
    return [
        rollout_group.c.run_no == no_of(run_table, run),
        rollout_group.c.purpose == Purpose.TRAIN.value,
        rollout_group.c.abandoned == false(),
        rollout_group.c.score_no.is_not(None),
        rollout_group.c.state.in_([state.value for state in states]),
        ~exists(select(1).where(_member.c.group_no == rollout_group.c.no, _member.c.pruned_at.is_not(None))),
    ]


def _has_return() -> ColumnElement[bool]:
    """Return whether a trajectory ended with a reward that no reward shaper failed to score."""
    ended = trajectory.c.status.in_([status.value for status in SCORED_STATUSES])
    return ended & (own.c.trajectory_no.is_(None) | own.c.total.is_not(None))


def _members(conn: Connection, groups: Sequence[str]) -> dict[str, list[Any]]:
    """Return the scored members of each group: rewards, and the update number of their oldest policy version."""
    sampled_by = (policy_version.c.run_no == trajectory.c.run_no) & (policy_version.c.id == trajectory.c.min_version)
    statement = (
        select(rollout_group.c.id.label("group_id"), trajectory.c.reward, own.c.total, policy_version.c.update_no)
        .join(rollout_group, rollout_group.c.no == trajectory.c.group_no)
        .join(own, OF_OWN, isouter=True)
        .join(policy_version, sampled_by, isouter=True)
        .where(_has_return())
        .order_by(trajectory.c.group_no, trajectory.c.member)
    )
    found: dict[str, list[Any]] = defaultdict(list)
    for row in among(conn, statement, rollout_group.c.id, groups):
        found[row.group_id].append(row)
    return found


def _total(row: Any) -> float:
    return float(row.reward if row.total is None else row.total)
