"""Compute the digests of stored rows again: an alteration then looks as if it had been written so."""

from sqlalchemy import true, update
from turnwise.records import Status
from turnwise.store.content.digests import HEADS, SEALED, change, head_digest
from turnwise.store.content.turn_rows import turn_rows
from turnwise.store.database import Database
from turnwise.store.schema import trajectory


def reseal(database: Database) -> None:
    """Write new digests of all steps, partial turns, trajectories and rows of sealed tables."""
    with database.transaction() as tx:
        for head in tx.conn.execute(HEADS).mappings().all():
            rows = turn_rows(tx.conn, [head["no"]])[head["no"]].sealed()
            for table, row in rows.turns:
                key = (table.c.trajectory_no == head["no"]) & (table.c.idx == row["idx"])
                tx.conn.execute(update(table).where(key).values(digest=row["digest"]))
            content = None if head["status"] == Status.RUNNING.value else rows.content_digest()
            values = {"content_digest": content, "digest": head_digest({**head, "content_digest": content})}
            tx.conn.execute(update(trajectory).where(trajectory.c.no == head["no"]).values(**values))
        for sealed in SEALED:
            change(tx.conn, sealed, true())
