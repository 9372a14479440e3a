"""Compute the digests of stored rows again: an alteration then looks as if it had been written so."""

from sqlalchemy import select, true, update
from turnwise.records import Status
from turnwise.store.content.digests import content_digest, partial_turn_digest, step_digest
from turnwise.store.content.head_digest import head_digest
from turnwise.store.content.seals import SEALED, change
from turnwise.store.database import Database
from turnwise.store.queries.load import HEADS
from turnwise.store.schema import message_image, partial_turn, step, step_image, trajectory


def reseal(database: Database) -> None:
    """Write new digests of all steps, partial turns, trajectories and rows of sealed tables."""
    with database.transaction() as tx:
        for head in tx.conn.execute(HEADS).mappings().all():
            steps, partial, said, shown = (
                tx.conn.execute(select(table).where(table.c.trajectory_no == head["no"]).order_by(*table.primary_key))
                .mappings()
                .all()
                for table in (step, partial_turn, message_image, step_image)
            )
            of_steps = {
                row["idx"]: step_digest(row, [one for one in shown if one["step_idx"] == row["idx"]]) for row in steps
            }
            of_partial = {row["idx"]: partial_turn_digest(row) for row in partial}
            for table, digests in ((step, of_steps), (partial_turn, of_partial)):
                for idx, digest in digests.items():
                    key = (table.c.trajectory_no == head["no"]) & (table.c.idx == idx)
                    tx.conn.execute(update(table).where(key).values(digest=digest))
            last = [image["blob_hash"] for image in shown if image["step_idx"] == len(steps)]
            running = head["status"] == Status.RUNNING.value
            content = None if running else content_digest(of_steps, of_partial, said, last)
            values = {"content_digest": content, "digest": head_digest({**head, "content_digest": content})}
            tx.conn.execute(update(trajectory).where(trajectory.c.no == head["no"]).values(**values))
        for sealed in SEALED:
            change(tx.conn, sealed, true())
