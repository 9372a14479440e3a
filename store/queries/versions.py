"""The history of a run: its policy versions, and the trajectories that each update consumed."""

from typing import Any

from sqlalchemy import Connection, and_, false, func, select, true

from ...records import PolicyVersion
from ..schema import batch_item, policy_version


def versions(conn: Connection, run: str) -> dict[int, PolicyVersion]:
    """All versions of a run by id, abandoned ones included."""
    rows = conn.execute(select(policy_version).where(policy_version.c.run_id == run).order_by(policy_version.c.id))
    return {row.id: _version(row) for row in rows}


def checkpoints(conn: Connection, run: str) -> list[PolicyVersion]:
    """The surviving versions that have a checkpoint, oldest first."""
    return [v for v in versions(conn, run).values() if v.checkpoint and not v.abandoned]


def latest_checkpoint(conn: Connection, run: str) -> PolicyVersion | None:
    """The newest surviving version that has a checkpoint: where a resume goes on."""
    return max(checkpoints(conn, run), key=lambda version: version.update, default=None)


def batch_items(conn: Connection, run: str, update: int) -> list[dict[str, Any]]:
    """Which trajectories made update ``update`` in the surviving history, and what each gave."""
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
    """Trajectories consumed more than once in the surviving history without being declared as reuse: must be empty."""
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
