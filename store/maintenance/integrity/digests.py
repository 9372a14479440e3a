"""The digests of rewards, batches and the rows of sealed tables against the stored rows. ``trajectories`` has those of
turns."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, Table, select

from ...content.seals import SEALED, seal
from ...operations.acknowledge import batch_digest
from ...operations.rewards import reward_digest
from ...schema import batch_group, batch_item, reward, train_batch
from .finding import Finding, Progress, name_of, streamed


def check_rows(conn: Connection, progress: Progress) -> Iterator[Finding]:
    """Yield a finding per row of a sealed table that differs from its digest."""
    for done, (table, columns) in enumerate(SEALED.items()):
        progress("rows", done, len(SEALED))
        for row in streamed(conn, select(table)):
            if row.digest != seal(table, row._mapping):
                yield Finding(table.name, name_of(row, table), "digest", f"one of {', '.join(columns)} was altered")


def check_rewards(conn: Connection, progress: Progress) -> Iterator[Finding]:
    """Yield a finding per row of ``reward`` that differs from its digest."""
    progress("rewards", 0, 0)
    for row in streamed(conn, select(reward)):
        if row.digest != reward_digest(row._mapping):
            yield Finding(reward.name, name_of(row, reward), "digest", "the rewards or verdicts were altered")


def check_batches(conn: Connection, progress: Progress) -> Iterator[Finding]:
    """Yield a finding per batch whose groups, items, metrics or recipe differ from its digest."""
    keys = conn.execute(select(train_batch.c.run_no, train_batch.c.version_id)).all()
    for done, (run_no, version) in enumerate(keys):
        progress("batches", done, len(keys))
        batch, groups, items = (_rows(conn, table, run_no, version) for table in (train_batch, batch_group, batch_item))
        if batch and batch[0]["digest"] != batch_digest(batch[0], groups, items):
            problem = "the batch, or one of its groups or trajectories, was altered, exchanged or deleted"
            yield Finding(train_batch.name, f"run_no={run_no} version_id={version}", "digest", problem)


def _rows(conn: Connection, table: Table, run_no: int, version: int) -> list[dict[str, Any]]:
    which = select(table).where(table.c.run_no == run_no, table.c.version_id == version)
    return [row._asdict() for row in conn.execute(which)]
