"""Writes about trajectories: started, finished and cancelled. ``steps`` writes their turns."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, func, select, update
from sqlalchemy.exc import IntegrityError

from ...records import GroupState, Status, Trajectory
from ..content.blobs import digest
from ..errors import NotFound, StoreConflict
from ..schema import insert_once, message, rollout_group, step, task
from ..schema import trajectory as trajectory_table
from ..types import escape
from .transaction import Transaction, operation

_GROUP_OF = (
    select(rollout_group.c.run_id, rollout_group.c.state, rollout_group.c.purpose, task.c.env_id)
    .join_from(rollout_group, task)
    .where(rollout_group.c.id == bindparam("key"))
)
DROPPED = "dropped by the rollout controller"
"""The beginning of the ``error`` of a cancelled trajectory that its group did not need: not a failure."""
_TRAJECTORY = select(trajectory_table).where(trajectory_table.c.id == bindparam("key"))


@operation
def start_trajectory(tx: Transaction, *, trajectory: Trajectory) -> None:
    """Store the head of a running trajectory; an existing one stays as it is.

    Raises:
        NotFound: its group is not stored.
        StoreConflict: the group is closed, or another trajectory has this member and attempt.
    """
    if tx.conn.execute(_TRAJECTORY, {"key": trajectory.id}).one_or_none() is not None:
        return
    group = tx.conn.execute(_GROUP_OF, {"key": trajectory.group}).one_or_none()
    if group is None:
        raise NotFound(f"no group {trajectory.group} in the store; call `open_group` first")
    if group.state != GroupState.OPEN.value:
        raise StoreConflict(f"group {trajectory.group} is {group.state}, so no trajectory can be added")
    row = {
        "id": trajectory.id,
        "run_id": group.run_id,
        "group_id": trajectory.group,
        "member": trajectory.member,
        "attempt": trajectory.attempt,
        "status": Status.RUNNING.value,
        "env_id": group.env_id,
        "purpose": group.purpose,
        "source": trajectory.source.value,
        "policy": trajectory.policy,
        "deterministic": trajectory.deterministic,
        "branched_from": trajectory.branched_from,
        "branched_at": trajectory.branched_at,
        "created_at": tx.now,
    }
    try:
        tx.conn.execute(insert_once(tx.conn.dialect.name, trajectory_table), row)
    except IntegrityError as error:
        which = f"attempt {trajectory.attempt} of member {trajectory.member} of group {trajectory.group}"
        raise StoreConflict(f"{which} has another trajectory than {trajectory.id}") from error


@operation
def finish_trajectory(
    tx: Transaction,
    *,
    trajectory: str,
    status: Status,
    reward: float = 0.0,
    success: bool | None = None,
    error: str = "",
    final_observation_hash: str = "",
    final_observation: str = "",
    extras: Mapping[str, Any] | None = None,
    n_steps: int | None = None,
    n_messages: int | None = None,
) -> None:
    """End a trajectory and count its steps, sampled tokens and versions. The same ending again changes nothing.

    Args:
        extras: JSON values for the record.
        n_steps: how many steps its player wrote; None if it did not count.
        n_messages: the same for messages.

    Raises:
        NotFound: the trajectory is not in the store.
        StoreConflict: it ended with another status before, or the store lacks a part of it.
    """
    if status is Status.RUNNING:
        raise ValueError("a trajectory cannot end as running")
    stored = tx.conn.execute(_TRAJECTORY, {"key": trajectory}).one_or_none()
    if stored is None:
        raise NotFound(f"no trajectory {trajectory} in the store")
    if stored.status != Status.RUNNING.value:
        if stored.status == status.value:
            return
        raise StoreConflict(f"trajectory {trajectory} ended as {stored.status}; it cannot end as {status}")
    tally, messages = _tally(tx.conn, trajectory)
    _check_whole(trajectory, "steps", n_steps, tally["n_steps"])
    _check_whole(trajectory, "messages", n_messages, messages)
    content = escape(final_observation).encode()
    name = digest(content)
    tx.blobs.insert(tx.conn, {name: content})
    values = {
        "status": status.value,
        "reward": float(reward),
        "success": None if success is None else bool(success),
        "error": error,
        "final_observation_hash": final_observation_hash,
        "final_observation_blob": name,
        "extras": dict(extras or {}),
        "ended_at": tx.now,
    }
    tx.conn.execute(_END, {"key": trajectory, **tally, **values})


def _check_whole(trajectory: str, what: str, written: int | None, stored: int | None) -> None:
    if written is not None and written != stored:
        raise StoreConflict(
            f"`finish_trajectory` of {trajectory} failed: the store has {stored} {what}, but {written} were written; "
            "run the same command again to resume the run"
        )


_END = update(trajectory_table).where(trajectory_table.c.id == bindparam("key"))
_COUNT_STEPS = select(func.count()).select_from(step).where(step.c.trajectory_id == bindparam("key"))
_COUNT_MESSAGES = select(
    func.count(),
    func.coalesce(func.sum(message.c.n_sampled), 0),
    func.min(message.c.min_version),
    func.max(message.c.max_version),
).where(message.c.trajectory_id == bindparam("key"))


def _tally(conn: Connection, trajectory: str) -> tuple[dict[str, int | None], int]:
    """Return the counts that a head stores of its steps and tokens, and the number of messages."""
    key = {"key": trajectory}
    messages, tokens, oldest, newest = conn.execute(_COUNT_MESSAGES, key).one()
    steps = conn.execute(_COUNT_STEPS, key).scalar_one()
    return {"n_steps": steps, "n_tokens": tokens, "min_version": oldest, "max_version": newest}, messages


@operation
def cancel_trajectories(tx: Transaction, *, group: str, reason: str, status: Status = Status.CANCELLED) -> int:
    """End the running trajectories of a group whose worker died or timed out, and return how many those were."""
    running = select(trajectory_table.c.id).where(
        trajectory_table.c.group_id == group, trajectory_table.c.status == Status.RUNNING.value
    )
    return end_running(tx, list(tx.conn.execute(running).scalars()), reason, status)


def end_running(tx: Transaction, trajectories: Sequence[str], reason: str, status: Status) -> int:
    """End running ``trajectories`` with the ``status`` of a failure, and return how many. Their steps stay."""
    for name in trajectories:
        ended = {"status": status.value, "error": reason, "ended_at": tx.now}
        tx.conn.execute(_END, {"key": name, **_tally(tx.conn, name)[0], **ended})
    return len(trajectories)
