"""The messages of every trajectory: their order, their parents, their images, and the counts that its head stores."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import BindParameter, Connection, Row, bindparam, func, select

from ....records import Message, Status
from ...content.rows import sampled_of
from ...content.stored_turns import contents_of, messages_of, turns_of
from ...database import Database
from ...errors import BlobMissing, StepCorrupt
from ...schema import message_image, partial_turn, step, trajectory
from .finding import Finding, Progress, name_of

_CHUNK = 100
"""Trajectories whose messages are in memory at once."""
_AMONG: BindParameter[Any] = bindparam("nos", expanding=True)
_HEADS = (
    select(
        *(trajectory.c[name] for name in ("no", "id", "status", "pruned_at", "n_tokens", "min_version", "max_version"))
    )
    .where(trajectory.c.no > bindparam("after"))
    .order_by(trajectory.c.no)
    .limit(_CHUNK)
)
_IMAGES = select(message_image.c.trajectory_no, message_image.c.message_idx).where(
    message_image.c.trajectory_no.in_(_AMONG)
)


def check_messages(database: Database, conn: Connection, progress: Progress) -> Iterator[Finding]:
    """Yield a finding per turn whose messages cannot be read, and per message, image or count that does not fit.

    A missing blob is a finding of another check, and so are the counts of a pruned trajectory, whose messages are gone.
    """
    total = conn.execute(select(func.max(trajectory.c.no))).scalar_one() or 0
    after = 0
    while heads := conn.execute(_HEADS, {"after": after}).all():
        progress("messages", after, total)
        after = heads[-1].no
        nos = [head.no for head in heads]
        steps, partial = turns_of(conn, nos)
        shown: dict[int, list[int]] = defaultdict(list)
        for no, message in conn.execute(_IMAGES, {"nos": nos}):
            shown[no].append(message)
        for head in heads:
            turns = [(step.name, row) for row in steps[head.no]] + [
                (partial_turn.name, row) for row in partial[head.no]
            ]
            yield from _of_trajectory(database, conn, head, turns, shown[head.no])


def _of_trajectory(
    database: Database, conn: Connection, head: Row[Any], turns: Sequence[tuple[str, Any]], shown: Sequence[int]
) -> Iterator[Finding]:
    try:
        contents = contents_of(conn, database.blobs, [row for _, row in turns])
    except BlobMissing:
        return
    messages: list[Message] = []
    for table, row in turns:
        try:
            messages += messages_of(row, contents)
        except StepCorrupt as error:
            yield Finding(table, f"trajectory_no={head.no} idx={row['idx']}", "messages", str(error))
            return
    if head.pruned_at is None:
        yield from _structure(head, sorted(messages, key=lambda one: one.index), shown)
    if head.pruned_at is None and head.status != Status.RUNNING.value:
        count, versions = sampled_of(messages)
        expected = (count, min(versions, default=None), max(versions, default=None))
        for name, value in zip(("n_tokens", "min_version", "max_version"), expected, strict=True):
            if head._mapping[name] != value:
                problem = f"is {head._mapping[name]}, but the messages have {value}"
                yield Finding(trajectory.name, name_of(head, trajectory), name, problem)


def _structure(head: Row[Any], messages: Sequence[Message], shown: Sequence[int]) -> Iterator[Finding]:
    """Yield findings of the message tree: the messages in the order of their indices, and those with images."""
    name = f"trajectory_no={head.no}"
    for position, one in enumerate(messages):
        if one.index != position:
            yield Finding(step.name, name, "messages", f"message {position} of the trajectory is missing")
            return
        if one.parent is not None and one.parent >= one.index:
            problem = f"message {one.index} names the parent {one.parent}, which does not precede it"
            yield Finding(step.name, name, "messages", problem)
    for index in sorted(set(shown)):
        if index >= len(messages):
            problem = f"names message {index}, but the trajectory has {len(messages)}"
            yield Finding(message_image.name, f"{name} message_idx={index}", "message_idx", problem)
