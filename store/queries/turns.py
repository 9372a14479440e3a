"""Columns over all turns of a long trajectory, for readers that load some of its turns only (``load.load_turns``)."""

from collections import defaultdict

from sqlalchemy import Connection, false, func, select, true

from ..schema import no_of, step, trajectory


def n_turns(conn: Connection, trajectory_id: str) -> int:
    """Return the number of stored turns of a trajectory, which may be running."""
    which = select(func.max(step.c.idx)).where(step.c.trajectory_no == no_of(trajectory, trajectory_id))
    last: int | None = conn.execute(which).scalar_one()
    return 0 if last is None else last + 1


def part_sums(conn: Connection, trajectory_id: str) -> dict[str, float]:
    """Return the sum of each part of the reward over the turns of a trajectory."""
    which = (
        select(step.c.reward_parts, func.count(), func.min(step.c.idx).label("first"))
        .where(step.c.trajectory_no == no_of(trajectory, trajectory_id), step.c.reward_parts.is_not(None))
        .group_by(step.c.reward_parts)
        .order_by("first")
    )
    found: dict[str, float] = defaultdict(float)
    for parts, count, _ in conn.execute(which):
        for name, value in parts.items():
            found[name] += count * value
    return dict(found)


def acts(conn: Connection, trajectory_id: str, first: int, last: int) -> list[tuple[str, str]]:
    """Return the hash of the observation and the action of each turn from ``first`` to ``last``, which is left out."""
    which = (
        select(step.c.observation_hash, step.c.action)
        .where(step.c.trajectory_no == no_of(trajectory, trajectory_id), step.c.idx >= first, step.c.idx < last)
        .order_by(step.c.idx)
    )
    return [(seen, did) for seen, did in conn.execute(which)]


def answered_turns(conn: Connection, trajectory_id: str) -> tuple[int, int]:
    """Return the number of turns whose action the environment answered, and of those on which it failed."""
    answered, failed = (func.count().filter(step.c.failed == value) for value in (false(), true()))
    which = select(answered, failed).where(step.c.trajectory_no == no_of(trajectory, trajectory_id))
    row = conn.execute(which).one()
    return row[0], row[1]
