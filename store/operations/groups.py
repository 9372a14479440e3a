"""Writes about groups: opened, enlarged and closed. ``scores`` writes the rewards of a closed group."""

from sqlalchemy import func, select, update

from ...records import Group, GroupState, Status
from ..errors import NotFound, StoreConflict
from ..schema import insert_once, rollout_group, task
from ..schema import trajectory as trajectory_table
from .group_states import transition
from .transaction import Transaction, operation

CLOSED = frozenset({GroupState.SCORING, GroupState.READY, GroupState.FILTERED, GroupState.FAILED})


@operation
def open_group(tx: Transaction, *, group: Group) -> None:
    """Store an open group and its task; an existing one stays as it is."""
    dialect = tx.conn.dialect.name
    problem = group.task
    tx.conn.execute(
        insert_once(dialect, task),
        {
            "id": problem.id,
            "env_id": problem.env_id,
            "env_version": problem.env_version,
            "seed": problem.seed,
            "split": problem.split,
            "options": dict(problem.options),
        },
    )
    tx.conn.execute(
        insert_once(dialect, rollout_group),
        {
            "id": group.id,
            "run_id": group.run,
            "task_id": problem.id,
            "purpose": group.purpose.value,
            "size": group.size,
            "prompt_prefix": group.prompt_prefix,
            "max_turns": group.horizon.max_turns,
            "max_tokens_per_turn": group.horizon.max_tokens_per_turn,
            "max_tokens_per_episode": group.horizon.max_tokens_per_episode,
            "max_context": group.horizon.max_context,
            "state": GroupState.OPEN.value,
            "created_at": tx.now,
        },
    )


@operation
def grow_group(tx: Transaction, *, group: str, size: int) -> None:
    """Raise the size of an open group to ``size``, before members are added. The same size again changes nothing.

    Raises:
        ValueError: the group is larger.
        StoreConflict: the group is closed.
        NotFound: the group is not in the store.
    """
    stored = tx.conn.execute(select(rollout_group).where(rollout_group.c.id == group).with_for_update()).one_or_none()
    if stored is None:
        raise NotFound(f"no group {group} in the store")
    if stored.size == size:
        return
    if stored.size > size:
        raise ValueError(f"group {group} has {stored.size} members; it cannot grow to {size}")
    if stored.state != GroupState.OPEN:
        raise StoreConflict(f"group {group} is {stored.state}, so it cannot grow")
    tx.conn.execute(update(rollout_group).where(rollout_group.c.id == group).values(size=size))


@operation
def close_group(tx: Transaction, *, group: str, state: GroupState, reason: str = "") -> None:
    """Close an open group, to be scored or as ready, filtered or failed. The same closing again changes nothing.

    Raises:
        ValueError: ``state`` is none of these.
        StoreConflict: the group was closed with another state, or one of its trajectories is still running.
        NotFound: the group is not in the store.
    """
    if state not in CLOSED:
        raise ValueError(f"a group closes as scoring, ready, filtered or failed, not {state}")
    stored = tx.conn.execute(select(rollout_group).where(rollout_group.c.id == group).with_for_update()).one_or_none()
    if stored is None:
        raise NotFound(f"no group {group} in the store")
    if state is GroupState.READY and stored.state in (GroupState.LEASED, GroupState.CONSUMED, GroupState.EXPIRED):
        return
    if state is GroupState.SCORING and stored.score_no is not None:
        return
    alive = select(func.count()).where(
        trajectory_table.c.group_id == group, trajectory_table.c.status == Status.RUNNING.value
    )
    if stored.state == GroupState.OPEN and (count := tx.conn.execute(alive).scalar_one()):
        raise StoreConflict(
            f"group {group} still has {count} running trajectories; finish them or call `cancel_trajectories` first"
        )
    transition(tx.conn, [group], state, reason=reason, closed_at=tx.now)
