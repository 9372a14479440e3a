"""The beginning of trajectories."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.exc import IntegrityError

from ...records import GroupState, Status, Trajectory
from ..errors import Fenced, NotFound, StoreConflict
from ..schema import Lookup, rollout_group, task
from ..schema import trajectory as trajectory_table
from ..schema.types import flag_text, time_text, uuid7_digits
from .bulk_insert import RowInsert
from .transaction import Transaction, bulk_operation, numbers_of

_GROUPS = Lookup(
    select(
        rollout_group.c.id,
        rollout_group.c.no,
        rollout_group.c.run_no,
        rollout_group.c.state,
        rollout_group.c.purpose,
        task.c.env_id,
    )
    .join_from(rollout_group, task)
    .order_by(rollout_group.c.no)
    .with_for_update(read=True, of=rollout_group),
    rollout_group.c.id,
)
_RUNNING, _OPEN = Status.RUNNING.value, GroupState.OPEN.value
_BEGUN = (
    *("uid", "id", "run_no", "group_no", "member", "attempt", "writer", "status", "env_id", "purpose", "source"),
    *("policy", "deterministic", "branched_from", "branched_at", "created_at"),
)
"""The columns of a trajectory that its start writes."""
_INSERT = RowInsert(trajectory_table, _BEGUN, conflict="id")
_WRITERS = Lookup(select(trajectory_table.c.id, trajectory_table.c.writer), trajectory_table.c.id)


@dataclass(frozen=True, slots=True)
class Start:
    """The head of a trajectory that begins.

    ``writer`` names the process and call that write the trajectory; later writes carry it.
    """

    trajectory: Trajectory
    writer: str = ""


@bulk_operation(Start)
def start_trajectory(tx: Transaction, starts: Sequence[Start]) -> None:
    """Store the heads of running trajectories; one of the same writer stays as it is.

    Raises:
        Fenced: another writer began the trajectory.
        StoreConflict: the group is closed, or another trajectory has this member and attempt.
    """
    _start(tx, [start for start in starts if start.trajectory.branched_from is None])
    for start in starts:
        if start.trajectory.branched_from is not None:  # its parent may be one of ``starts``
            _start(tx, [start])


def _start(tx: Transaction, starts: Sequence[Start]) -> None:
    if not starts:
        return
    groups = {row.id: row for row in _GROUPS.run(tx.conn, {start.trajectory.group for start in starts})}
    new = starts
    if len(groups) < len({start.trajectory.group for start in starts}) or any(
        row.state != _OPEN for row in groups.values()
    ):
        stored = _writers(tx.conn, starts)
        new = [start for start in starts if start.trajectory.id not in stored]
        _check_writers([start for start in starts if start.trajectory.id in stored], stored)
    if not new:
        return
    now = time_text(tx.now)
    rows = [_new_row(tx, one, groups.get(one.trajectory.group), now) for one in new]
    try:
        inserted = _INSERT.run(tx.conn, rows)
    except IntegrityError as error:
        first = new[0].trajectory
        which = f"attempt {first.attempt} of member {first.member} of group {first.group}"
        raise StoreConflict(f"{which} has another trajectory than {first.id}") from error
    if inserted < len(rows):
        _check_writers(new, _writers(tx.conn, new))


def _new_row(tx: Transaction, start: Start, group: Any, now: str) -> tuple[Any, ...]:
    """Return the values of ``_BEGUN``."""
    trajectory = start.trajectory
    if group is None:
        raise NotFound(f"no group {trajectory.group} in the store; call `open_group` first")
    _, no, run_no, state, purpose, env_id = group
    if state != _OPEN:
        raise StoreConflict(f"group {trajectory.group} is {state}, so no trajectory can be added")
    of = trajectory.branched_from
    parent = None if of is None else numbers_of(tx.conn, trajectory_table, [of])[of]
    return (
        uuid7_digits() if trajectory.uid is None else trajectory.uid.hex,
        trajectory.id,
        run_no,
        no,
        trajectory.member,
        trajectory.attempt,
        start.writer,
        _RUNNING,
        env_id,
        purpose,
        trajectory.source.value,
        trajectory.policy,
        flag_text(trajectory.deterministic),
        parent,
        trajectory.branched_at,
        now,
    )


def _writers(conn: Connection, starts: Sequence[Start]) -> dict[str, str]:
    """Return the writers of the stored trajectories among ``starts``, by id."""
    return {row.id: row.writer for row in _WRITERS.run(conn, {start.trajectory.id for start in starts})}


def _check_writers(starts: Sequence[Start], stored: Mapping[str, str]) -> None:
    for start in starts:
        check_writer(start.trajectory.id, stored[start.trajectory.id], start.writer)


def check_writer(trajectory: str, stored: str, writer: str) -> None:
    """Raise Fenced unless ``writer`` is the ``stored`` one."""
    if stored != writer:
        raise Fenced(f"another process writes trajectory {trajectory}; nothing was stored")
