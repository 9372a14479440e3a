"""The draws of a run's task sampler: how many there are, and which of them no surviving group stands for."""

from sqlalchemy import Connection, and_, case, func, or_, select

from ...records import Group, GroupState
from ..operations.group_states import CONTENT_REMOVED, RUN_ENDED, RUN_RESUMED
from ..schema import no_of, rollout_group
from ..schema import run as run_table
from .load import load_group_heads

_IS_LOST = or_(
    rollout_group.c.abandoned,
    and_(rollout_group.c.state == GroupState.FAILED.value, rollout_group.c.reason.in_((RUN_ENDED, RUN_RESUMED))),
    and_(rollout_group.c.state == GroupState.EXPIRED.value, rollout_group.c.reason == CONTENT_REMOVED),
)
"""A group that the end of a process or a resume gave up: the uninterrupted run would have trained on it."""


def next_draw(conn: Connection, run: str) -> int:
    """Return a number above that of every draw of a run."""
    highest = select(func.max(rollout_group.c.draw)).where(rollout_group.c.run_no == no_of(run_table, run))
    last = conn.execute(highest).scalar_one()
    return 0 if last is None else int(last) + 1


def lost_draws(conn: Connection, run: str) -> list[Group]:
    """Return the newest group of each draw that no surviving group stands for, in the order of the draws."""
    of_run = and_(rollout_group.c.run_no == no_of(run_table, run), rollout_group.c.draw.is_not(None))
    surviving = func.sum(case((_IS_LOST, 0), else_=1))
    lost = select(func.max(rollout_group.c.no)).where(of_run).group_by(rollout_group.c.draw).having(surviving == 0)
    names = conn.execute(
        select(rollout_group.c.id).where(rollout_group.c.no.in_(lost)).order_by(rollout_group.c.draw)
    ).scalars()
    return load_group_heads(conn, list(names))
