"""The groups of a run as its driver continues with them: their states, members, scorings and draws."""

from sqlalchemy import Column, ColumnElement, Connection, and_, case, func, or_, select

from ...records import Group, GroupState, Limit, Outcome, Status
from ..content.rows import Tally
from ..content.turn_rows import turn_rows
from ..database import Database
from ..operations.group_states import CONTENT_REMOVED, RUN_ENDED, RUN_RESUMED
from ..schema import no_of, rollout_group, step, trajectory
from .conditions import counts_by, of_run, row_count, surviving, training
from .load import load_group_heads

_IS_LOST = or_(
    rollout_group.c.abandoned,
    and_(rollout_group.c.state == GroupState.FAILED.value, rollout_group.c.reason.in_((RUN_ENDED, RUN_RESUMED))),
    and_(rollout_group.c.state == GroupState.EXPIRED.value, rollout_group.c.reason == CONTENT_REMOVED),
)
"""A group that the end of a process or a resume gave up: the uninterrupted run would have trained on it."""


def next_draw(conn: Connection, run: str) -> int:
    """Return a number above that of every draw of a run."""
    return _above(conn, rollout_group.c.draw, run)


def next_scoring(conn: Connection, run: str) -> int:
    """Return a number above that of every scoring of a run, abandoned ones included."""
    return _above(conn, rollout_group.c.score_no, run)


def _above(conn: Connection, column: Column[int], run: str) -> int:
    last = conn.execute(select(func.max(column)).where(of_run(rollout_group, run))).scalar_one()
    return 0 if last is None else int(last) + 1


def lost_draws(conn: Connection, run: str) -> list[Group]:
    """Return the newest group of each draw that no surviving group stands for, in the order of the draws."""
    drawn = of_run(rollout_group, run) & rollout_group.c.draw.is_not(None)
    kept = func.sum(case((_IS_LOST, 0), else_=1))
    lost = select(func.max(rollout_group.c.no)).where(drawn).group_by(rollout_group.c.draw).having(kept == 0)
    which = select(rollout_group.c.id).where(rollout_group.c.no.in_(lost)).order_by(rollout_group.c.draw)
    return load_group_heads(conn, list(conn.execute(which).scalars()))


def unscored_groups(conn: Connection, run: str) -> list[str]:
    """Return the ids of the training groups whose members have ended and that are not scored yet, oldest first."""
    which = (
        select(rollout_group.c.id)
        .where(training(rollout_group, run), rollout_group.c.state == GroupState.SCORING.value)
        .order_by(rollout_group.c.closed_at, rollout_group.c.no)
    )
    return list(conn.execute(which).scalars())


def scored_from(conn: Connection, run: str, number: int) -> list[tuple[int, str]]:
    """Return number and id of the surviving groups whose scoring has ``number`` or a higher one, in that order."""
    which = (
        select(rollout_group.c.score_no, rollout_group.c.id)
        .where(surviving(rollout_group, run), rollout_group.c.score_no >= number)
        .order_by(rollout_group.c.score_no)
    )
    return [(row.score_no, row.id) for row in conn.execute(which)]


ACTIVE = (GroupState.OPEN, GroupState.SCORING, GroupState.READY, GroupState.LEASED)
"""The states of a group that is being played or scored, or waits in the queue."""


def active_groups(conn: Connection, run: str) -> dict[GroupState, int]:
    """Return how many training groups are in each active state. The cost does not grow with the closed groups."""
    active = rollout_group.c.state.in_([state.value for state in ACTIVE])
    found = counts_by(conn, rollout_group.c.state, training(rollout_group, run), active)
    return {GroupState(state): number for state, number in found.items()}


def cancelled_groups(conn: Connection, run: str) -> int:
    """Return how many training groups are stored as failed only because the run ended."""
    failed = rollout_group.c.state == GroupState.FAILED.value
    return row_count(conn, training(rollout_group, run), failed, rollout_group.c.reason == RUN_ENDED)


_NEWEST = 1000
"""Groups among which the one with the highest number is: groups are opened in the order of their numbers."""


def next_group(conn: Connection, run: str) -> int:
    """Return a number above that of every training group of a run; their ids are ``run:number``."""
    which = (
        select(rollout_group.c.id)
        .where(training(rollout_group, run))
        .order_by(rollout_group.c.created_at.desc(), rollout_group.c.no.desc())
        .limit(_NEWEST)
    )
    numbers = (name.rpartition(":")[2] for name in conn.execute(which).scalars())
    return max((int(number) for number in numbers if number.isdecimal()), default=-1) + 1


def members(conn: Connection, group: str) -> list[Outcome]:
    """Return the latest attempt of each member of a group, by member."""
    cut = select(func.count()).where(step.c.trajectory_no == trajectory.c.no, step.c.cut_by != "").scalar_subquery()
    rows = conn.execute(
        select(trajectory, cut.label("cut_turns"))
        .where(_of_group(group))
        .order_by(trajectory.c.member, trajectory.c.attempt)
    ).all()
    latest = {row.member: row for row in rows}
    owners = {row.no: row.member for row in rows}
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
            error=row.error or row.stop_reason,
            reached=Limit(row.reached) if row.reached else None,
            cut_turns=row.cut_turns,
            parent=None if row.branched_from is None else owners.get(row.branched_from),
            branched_at=row.branched_at,
        )
        for row in latest.values()
    ]


def running_tallies(database: Database, *, run: str | None = None, group: str | None = None) -> dict[str, Tally]:
    """Return the tallies of the running trajectories of a run or a group, by id, for the transaction that ends them:
    it reads no turns, unless more were appended meanwhile.

    Raises:
        StepCorrupt: the messages of a turn cannot be read.
        BlobMissing: they are missing.
    """
    if group is None:
        which = of_run(trajectory, run or "") & trajectory.c.ended_at.is_(None)
    else:
        which = _of_group(group) & (trajectory.c.status == Status.RUNNING.value)
    running = select(trajectory.c.no, trajectory.c.id).where(which)
    with database.read() as conn:
        names = dict(map(tuple, conn.execute(running)))
        return {names[no]: rows.tally(conn, database.blobs, {}) for no, rows in turn_rows(conn, names).items()}


def _of_group(group: str) -> ColumnElement[bool]:
    return trajectory.c.group_no == no_of(rollout_group, group)


def group_counts(conn: Connection, run: str) -> dict[GroupState, int]:
    """Return how many training groups of a run are in each state."""
    found = counts_by(conn, rollout_group.c.state, training(rollout_group, run))
    return {state: found.get(state.value, 0) for state in GroupState}
