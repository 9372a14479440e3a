"""Writes about groups: opened, enlarged and closed. ``rewards`` writes those of a closed group."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, func, select, update

from ...records import Group, GroupState, Status, Task
from ..errors import NotFound, StoreConflict
from ..schema import Lookup, insert_once, rollout_group, task
from ..schema import run as run_table
from ..schema import trajectory as trajectory_table
from ..schema.types import time_text
from .bulk_insert import RowInsert
from .endings import end_running
from .group_states import transition
from .runs import fence
from .transaction import Transaction, bulk_operation, numbers_of, operation

CLOSED = frozenset({GroupState.SCORING, GroupState.READY, GroupState.FILTERED, GroupState.FAILED})
LATE = "written after its group was closed"
"""The error of a trajectory that was still running when its group was closed: its worker was lost."""


@dataclass(frozen=True, slots=True)
class Opening:
    """An open group to be stored, by the driver with ``epoch``."""

    group: Group
    epoch: int | None = None


@bulk_operation(Opening)
def open_group(tx: Transaction, opens: Sequence[Opening]) -> None:
    """Store open groups and their tasks; an existing one stays as it is."""
    runs = numbers_of(tx.conn, run_table, [one.group.run for one in opens])
    for run, epoch in dict.fromkeys((one.group.run, one.epoch) for one in opens):
        fence(tx, runs[run], epoch)
    tasks = _task_numbers(tx, {one.group.task.id: one.group.task for one in opens})
    for run, run_no in runs.items():
        groups = [one.group for one in opens if one.group.run == run]
        _INSERT.run(tx.conn, [_group_row(tx, one, run_no, tasks[one.task.id]) for one in groups])


def _task_numbers(tx: Transaction, tasks: Mapping[str, Task]) -> dict[str, int]:
    """Return ``no`` of tasks by their ids; those that are not stored are inserted."""
    found = dict(map(tuple, _TASKS.run(tx.conn, tasks)))
    if missing := sorted(tasks.keys() - found.keys()):
        rows = [_task_row(tasks[name]) for name in missing]
        tx.conn.execute(insert_once(tx.conn.dialect.name, task), rows)
        found = numbers_of(tx.conn, task, tasks)
    return found


def _task_row(problem: Task) -> dict[str, Any]:
    return {
        "id": problem.id,
        "env_id": problem.env_id,
        "env_version": problem.env_version,
        "seed": problem.seed,
        "split": problem.split,
        "options": dict(problem.options),
    }


_GROUP = (
    *("id", "run_no", "task_no", "purpose", "size", "prompt_prefix"),
    *("max_turns", "max_tokens_per_turn", "max_tokens_per_episode", "max_context", "state", "created_at"),
    "draw",
)
"""The columns that the opening of a group writes."""
_INSERT = RowInsert(rollout_group, _GROUP, conflict="id")
_TASKS = Lookup(select(task.c.id, task.c.no), task.c.id)


def _group_row(tx: Transaction, group: Group, run_no: int, task_no: int) -> tuple[Any, ...]:
    horizon = group.horizon
    return (
        group.id,
        run_no,
        task_no,
        group.purpose.value,
        group.size,
        group.prompt_prefix,
        horizon.max_turns,
        horizon.max_tokens_per_turn,
        horizon.max_tokens_per_episode,
        horizon.max_context,
        GroupState.OPEN.value,
        time_text(tx.now),
        group.draw,
    )


@operation
def grow_group(tx: Transaction, *, group: str, size: int, epoch: int | None = None) -> None:
    """Raise the size of an open group to ``size``, before members are added. The same size again changes nothing.

    Raises:
        ValueError: the group is larger.
        StoreConflict: the group is closed.
    """
    stored = locked_group(tx, group, epoch)
    if stored.size == size:
        return
    if stored.size > size:
        raise ValueError(f"group {group} has {stored.size} members; it cannot grow to {size}")
    if stored.state != GroupState.OPEN:
        raise StoreConflict(f"group {group} is {stored.state}, so it cannot grow")
    tx.conn.execute(update(rollout_group).where(rollout_group.c.no == stored.no).values(size=size))


@operation
def close_group(tx: Transaction, *, group: str, state: GroupState, reason: str = "", epoch: int | None = None) -> None:
    """Close an open group, to be scored or as ready, filtered or failed. The same closing again changes nothing.

    A trajectory that still runs is one that a lost worker began late: it is cancelled.

    Raises:
        ValueError: ``state`` is none of these.
        StoreConflict: the group was closed with another state.
    """
    if state not in CLOSED:
        raise ValueError(f"a group closes as scoring, ready, filtered or failed, not {state}")
    stored = locked_group(tx, group, epoch)
    if state is GroupState.READY and stored.state in (GroupState.LEASED, GroupState.CONSUMED, GroupState.EXPIRED):
        return
    if state is GroupState.SCORING and stored.score_no is not None:
        return
    members = trajectory_table.c.group_no == stored.no
    if stored.state == GroupState.OPEN:
        running = select(trajectory_table.c.no).where(members, trajectory_table.c.status == Status.RUNNING.value)
        end_running(tx, list(tx.conn.execute(running).scalars()), LATE, Status.CANCELLED)
    count = tx.conn.execute(select(func.count()).select_from(trajectory_table).where(members)).scalar_one()
    transition(tx.conn, [group], state, reason=reason, closed_at=tx.now, n_trajectories=count)


def locked_group(tx: Transaction, group: str, epoch: int | None = None) -> Row[Any]:
    """Return the row of a group, locked until the transaction ends.

    The run is locked before the group, as the other writes of drivers do it: two of them never wait for each other.

    Raises:
        Fenced: the driver with ``epoch`` no longer drives the group's run.
        NotFound: the group is not in the store.
    """
    named = rollout_group.c.id == group
    run_no = tx.conn.execute(select(rollout_group.c.run_no).where(named)).scalar_one_or_none()
    if run_no is None:
        raise NotFound(f"no group {group} in the store")
    fence(tx, run_no, epoch)
    return tx.conn.execute(select(rollout_group).where(named).with_for_update(key_share=True)).one()
