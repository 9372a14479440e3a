"""The seals of trajectories, the digests of rewards and batches, and the messages of trajectories."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, Table, func, select

from ....records import Message, Status
from ...content.rows import sampled_of
from ...content.turn_rows import Row, TurnRows, contents_of, messages_of, turn_rows
from ...database import Database
from ...errors import BlobMissing, StepCorrupt
from ...operations.acknowledge import batch_digest
from ...operations.rewards import reward_digest
from ...schema import batch_group, batch_item, message_image, reward, step, train_batch, trajectory
from .. import Progress
from .finding import Finding, name_of, streamed

_CHUNK = 100
"""Trajectories whose rows are in memory at once."""


def check_trajectories(database: Database, conn: Connection, progress: Progress) -> Iterator[Finding]:
    """Yield a finding per turn and trajectory whose rows differ from their digests, per turn whose messages cannot be
    read, and per message, image or count that does not fit.

    A missing blob is a finding of another check.
    """
    total = conn.execute(select(func.max(trajectory.c.no))).scalar_one() or 0
    after = 0
    which = select(trajectory).order_by(trajectory.c.no).limit(_CHUNK)
    while heads := conn.execute(which.where(trajectory.c.no > after)).mappings().all():
        progress("trajectories", after, total)
        after = heads[-1]["no"]
        rows = turn_rows(conn, [head["no"] for head in heads])
        for head in heads:
            yield from _digests(head, rows[head["no"]])
            yield from _messages(database, conn, head, rows[head["no"]])
            if head["status"] != Status.RUNNING.value:
                yield from _count(head, rows[head["no"]])


def _digests(head: Any, rows: TurnRows) -> Iterator[Finding]:
    for table, row in rows.altered():
        yield Finding(table.name, _turn(head, row), "digest", "the row, or one of its images, was altered")
    if head["seal"] != rows.seal(head):
        problem = "one of its columns, turns or images was altered, exchanged, added or deleted"
        yield Finding(trajectory.name, _name(head), "seal", problem)


def _messages(database: Database, conn: Connection, head: Any, rows: TurnRows) -> Iterator[Finding]:
    """Yield findings of the messages; retention removed those of a pruned trajectory."""
    try:
        contents = contents_of(conn, database.blobs, (row for _, row in rows.turns))
    except BlobMissing:
        return
    messages: list[Message] = []
    for table, row in rows.turns:
        try:
            messages += messages_of(row, contents)
        except StepCorrupt as error:
            yield Finding(table.name, _turn(head, row), "messages", str(error))
            return
    if head["pruned_at"] is not None:
        return
    yield from _structure(head, sorted(messages, key=lambda message: message.index), rows)
    if head["status"] != Status.RUNNING.value:
        count, versions = sampled_of(messages)
        expected = {"n_tokens": count, "min_version": min(versions, default=None)}
        for name, value in {**expected, "max_version": max(versions, default=None)}.items():
            if head[name] != value:
                problem = f"is {head[name]}, but the messages have {value}"
                yield Finding(trajectory.name, _name(head), name, problem)


def _structure(head: Any, messages: list[Message], rows: TurnRows) -> Iterator[Finding]:
    """Yield findings of the message tree: the messages in the order of their indices, and those with images."""
    name = f"trajectory_no={head['no']}"
    for position, message in enumerate(messages):
        if message.index != position:
            yield Finding(step.name, name, "messages", f"message {position} of the trajectory is missing")
            return
        if message.parent is not None and message.parent >= message.index:
            problem = f"message {message.index} names the parent {message.parent}, which does not precede it"
            yield Finding(step.name, name, "messages", problem)
    for index in sorted(rows.images(message_image)):
        if index >= len(messages):
            problem = f"names message {index}, but the trajectory has {len(messages)}"
            yield Finding(message_image.name, f"{name} message_idx={index}", "message_idx", problem)


def _count(head: Any, rows: TurnRows) -> Iterator[Finding]:
    """Yield a finding if the number of steps is another one; retention may have deleted all steps."""
    count = len(rows[step])
    if head["pruned_at"] is not None and not count:
        return
    if head["n_steps"] != count:
        problem = f"is {head['n_steps']}, but the rows have {count}"
        yield Finding(trajectory.name, _name(head), "n_steps", problem)
    if count and count != (last := rows[step][-1]["idx"]) + 1:
        problem = f"ends at {last}, but the trajectory has {count} rows: one is missing"
        yield Finding(step.name, f"trajectory_no={head['no']}", "idx", problem)


def _name(head: Any) -> str:
    return f"no={head['no']} id={head['id']}"


def _turn(head: Any, row: Row) -> str:
    return f"trajectory_no={head['no']} idx={row['idx']}"


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
