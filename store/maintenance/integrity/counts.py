"""Counts that a head stores of its rows: they must be those of the rows."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import BindParameter, Connection, Row, bindparam, func, select

from ....records import Status
from ...schema import rollout_group, step, trajectory
from .finding import Finding, Progress, findings, key_columns, name_of

_CHUNK = 500
_AMONG: BindParameter[Any] = bindparam("nos", expanding=True)
_HEADS = (
    select(*key_columns(trajectory), trajectory.c.n_steps, trajectory.c.pruned_at)
    .where(trajectory.c.no > bindparam("after"), trajectory.c.status != Status.RUNNING.value)
    .order_by(trajectory.c.no)
    .limit(_CHUNK)
)
_STEPS = (
    select(step.c.trajectory_no, func.count().label("rows"), func.max(step.c.idx).label("last"))
    .where(step.c.trajectory_no.in_(_AMONG))
    .group_by(step.c.trajectory_no)
)


def check_counts(conn: Connection, progress: Progress) -> Iterator[Finding]:
    """Yield a finding per count of an ended trajectory, and per number of trajectories of a closed group, that differs
    from the rows.
    """
    total = conn.execute(select(func.max(trajectory.c.no))).scalar_one() or 0
    after = 0
    while heads := conn.execute(_HEADS, {"after": after}).all():
        progress("counts", after, total)
        after = heads[-1].no
        nos = {"nos": [head.no for head in heads]}
        steps = {row.trajectory_no: row for row in conn.execute(_STEPS, nos)}
        for head in heads:
            yield from _of_trajectory(head, steps.get(head.no))
    yield from _of_groups(conn)


def _of_trajectory(head: Any, turns: Row[Any] | None) -> Iterator[Finding]:
    count = turns.rows if turns else 0
    if head.pruned_at is not None and not count:
        return
    if head.n_steps != count:
        problem = f"is {head.n_steps}, but the rows have {count}"
        yield Finding(trajectory.name, name_of(head, trajectory), "n_steps", problem)
    if turns is not None and count != turns.last + 1:
        problem = f"ends at {turns.last}, but the trajectory has {count} rows: one is missing"
        yield Finding(step.name, f"trajectory_no={head.no}", "idx", problem)


def _of_groups(conn: Connection) -> Iterator[Finding]:
    members: Any = select(func.count()).where(trajectory.c.group_no == rollout_group.c.no).scalar_subquery()
    statement = select(*key_columns(rollout_group), rollout_group.c.n_trajectories, members.label("members")).where(
        rollout_group.c.n_trajectories != members
    )
    yield from findings(
        conn,
        rollout_group,
        statement,
        "n_trajectories",
        "is {n_trajectories}, but the group has {members} trajectories",
    )
