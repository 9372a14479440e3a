"""Compute the digests of stored rows again: an alteration then looks as if it had been written so."""

from sqlalchemy import select, update
from turnwise.store.content.turn_rows import turn_rows
from turnwise.store.database import Database
from turnwise.store.schema import trajectory


def reseal(database: Database) -> None:
    """Write new digests of all steps and partial turns, and new seals of the trajectories that have ended."""
    with database.transaction() as tx:
        for head in tx.conn.execute(select(trajectory)).mappings().all():
            rows = turn_rows(tx.conn, [head["no"]])[head["no"]].sealed()
            for table, row in rows.turns:
                key = (table.c.trajectory_no == head["no"]) & (table.c.idx == row["idx"])
                tx.conn.execute(update(table).where(key).values(digest=row["digest"]))
            tx.conn.execute(update(trajectory).where(trajectory.c.no == head["no"]).values(seal=rows.seal(head)))
