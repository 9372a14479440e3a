"""The history of a run: its policy versions, and the trajectories that each update consumed."""

from typing import Any

from sqlalchemy import Connection, and_, false, func, select, true

from ...records import PolicyVersion
from ..schema import batch_item, policy_version


def versions(conn: Connection, run: str) -> dict[int, PolicyVersion]:
    """Return all versions of a run by id, abandoned ones included."""
    rows = conn.execute(select(policy_version).where(policy_version.c.run_id == run).order_by(policy_version.c.id))
    return {row.id: _version(row) for row in rows}


def checkpoints(conn: Connection, run: str) -> list[PolicyVersion]:
    """Return the surviving versions that have a checkpoint, oldest first."""
    return [v for v in versions(conn, run).values() if v.checkpoint and not v.abandoned]


def latest_checkpoint(conn: Connection, run: str) -> PolicyVersion | None:
    """Return the newest surviving version that has a checkpoint: a resume continues from it."""
    return max(checkpoints(conn, run), key=lambda version: version.update, default=None)


def batch_items(conn: Connection, run: str, update: int) -> list[dict[str, Any]]:
    """Return the rows of the trajectories that ``update`` consumed in the surviving history."""
    which = (
        select(batch_item)
        .join(
            policy_version,
            and_(policy_version.c.run_id == batch_item.c.run_id, policy_version.c.id == batch_item.c.version_id),
        )
        .where(batch_item.c.run_id == run, policy_version.c.update_no == update, policy_version.c.abandoned == false())
        .order_by(batch_item.c.trajectory_id)
    )
    return [dict(row) for row in conn.execute(which).mappings()]


def double_consumed(conn: Connection, run: str) -> list[str]:
    """Return the trajectories that the surviving history consumed twice as fresh: always none."""
    which = (
        select(batch_item.c.trajectory_id)
        .join(
            policy_version,
            and_(policy_version.c.run_id == batch_item.c.run_id, policy_version.c.id == batch_item.c.version_id),
        )
        .where(batch_item.c.run_id == run, batch_item.c.fresh == true(), policy_version.c.abandoned == false())
        .group_by(batch_item.c.trajectory_id)
        .having(func.count() > 1)
    )
    return list(conn.execute(which).scalars())


def _version(row: Any) -> PolicyVersion:
    return PolicyVersion(
        run=row.run_id,
        id=row.id,
        parent=row.parent_id,
        update=row.update_no,
        abandoned=row.abandoned,
        checkpoint=row.checkpoint,
    )
