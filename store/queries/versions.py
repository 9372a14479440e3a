"""The history of a run: its policy versions."""

from typing import Any

from sqlalchemy import Connection, select

from ...records import PolicyVersion
from ..schema import no_of, policy_version
from ..schema import run as run_table


def versions(conn: Connection, run: str) -> dict[int, PolicyVersion]:
    """Return all versions of a run by id, abandoned ones included."""
    which = select(policy_version).where(policy_version.c.run_no == no_of(run_table, run))
    return {row.id: _version(run, row) for row in conn.execute(which.order_by(policy_version.c.id))}


def checkpoints(conn: Connection, run: str) -> list[PolicyVersion]:
    """Return the surviving versions that have a checkpoint, oldest first."""
    return [v for v in versions(conn, run).values() if v.checkpoint and not v.abandoned]


def latest_checkpoint(conn: Connection, run: str) -> PolicyVersion | None:
    """Return the newest surviving version that has a checkpoint: a resume continues from it."""
    return max(checkpoints(conn, run), key=lambda version: version.update, default=None)


def _version(run: str, row: Any) -> PolicyVersion:
    return PolicyVersion(
        run=run,
        id=row.id,
        parent=row.parent_id,
        update=row.update_no,
        abandoned=row.abandoned,
        checkpoint=row.checkpoint,
    )
