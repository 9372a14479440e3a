"""The digests of trajectories, rewards and batches against the stored rows."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from sqlalchemy import Connection, RowMapping, Table, bindparam, func, select

from ....records import Status
from ...content.digests import content_digest, partial_turn_digest, step_digest
from ...content.head_digest import GROUP_COLUMNS, head_digest
from ...content.seals import SEALED, seal
from ...operations.acknowledge import batch_digest
from ...operations.rewards import reward_digest
from ...schema import (
    batch_group,
    batch_item,
    message_image,
    partial_turn,
    reward,
    rollout_group,
    step,
    step_image,
    task,
    train_batch,
    trajectory,
)
from .finding import Finding, Progress, name_of, streamed

Row = RowMapping

_CHUNK = 100
"""Trajectories whose rows are in memory at once."""
_HEADS = (
    select(trajectory, *GROUP_COLUMNS)
    .join(rollout_group, rollout_group.c.no == trajectory.c.group_no)
    .join(task, task.c.no == rollout_group.c.task_no)
    .where(trajectory.c.no > bindparam("after"))
    .order_by(trajectory.c.no)
    .limit(_CHUNK)
)


def check_trajectories(conn: Connection, progress: Progress) -> Iterator[Finding]:
    """Yield a finding per turn and trajectory whose rows differ from their digests."""
    total = conn.execute(select(func.max(trajectory.c.no))).scalar_one() or 0
    after = 0
    while heads := conn.execute(_HEADS, {"after": after}).mappings().all():
        progress("digests", after, total)
        after = heads[-1]["no"]
        nos = [head["no"] for head in heads]
        steps, partial, said, shown = (
            _of(conn, table, nos) for table in (step, partial_turn, message_image, step_image)
        )
        for head in heads:
            no = head["no"]
            of_step = _by_step(shown[no])
            yield from _altered(step, ((row, step_digest(row, of_step[row["idx"]])) for row in steps[no]))
            yield from _altered(partial_turn, ((row, partial_turn_digest(row)) for row in partial[no]))
            # An image of the end has no step whose digest covers its place among the images.
            last = [
                image["blob_hash"] if image["idx"] == at else "elsewhere"
                for at, image in enumerate(of_step[len(steps[no])])
            ]
            yield from _of_head(head, content_digest(_digests(steps[no]), _digests(partial[no]), said[no], last))


def _altered(table: Table, rows: Iterable[tuple[Row, str]]) -> Iterator[Finding]:
    """Yield a finding per row that has another digest than its values have."""
    for row, digest in rows:
        if row["digest"] != digest:
            name = f"trajectory_no={row['trajectory_no']} idx={row['idx']}"
            yield Finding(table.name, name, "digest", "the row, or one of its images, was altered")


def _of_head(head: Row, content: str) -> Iterator[Finding]:
    name = f"no={head['no']} id={head['id']}"
    if head["content_digest"] != (None if head["status"] == Status.RUNNING.value else content):
        problem = "a turn or an image of the trajectory was exchanged, added or deleted"
        yield Finding(trajectory.name, name, "content_digest", problem)
    if head["digest"] != head_digest(head):
        yield Finding(trajectory.name, name, "digest", "a column of the trajectory or of its group was altered")


def _digests(rows: list[Row]) -> dict[int, str]:
    return {row["idx"]: row["digest"] for row in rows}


def _of(conn: Connection, table: Table, nos: list[int]) -> dict[int, list[Row]]:
    """Return the rows of trajectories, by ``no``."""
    found: dict[int, list[Row]] = defaultdict(list)
    which = select(table).where(table.c.trajectory_no.in_(bindparam("nos", expanding=True)))
    for row in conn.execute(which.order_by(*table.primary_key), {"nos": nos}).mappings():
        found[row["trajectory_no"]].append(row)
    return found


def _by_step(images: list[Row]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = defaultdict(list)
    for image in images:
        found[image["step_idx"]].append(image)
    return found


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
