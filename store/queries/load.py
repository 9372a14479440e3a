"""From rows to records: whole trajectories and groups. Every content is compared with its hash."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row, bindparam, select

from ...records import Group, GroupState, Horizon, Message, Purpose, Role, Source, Status, Step, Task, Trajectory
from ..content.blobs import check
from ..content.token_codec import decode
from ..database import Database
from ..errors import BlobCorrupt, NotFound, StepCorrupt
from ..schema import message, message_image, rollout_group, step, step_image, task, trajectory
from ..types import unescape
from .nearest import not_found

_CHUNK = 500


def load_trajectory(database: Database, trajectory_id: str, *, verify: bool = True) -> Trajectory:
    """Return a trajectory with its steps and messages. With ``verify=False``, altered content is returned as it is.

    Raises:
        NotFound: the trajectory is not in the store.
        StepCorrupt: content was altered; ``step`` is the index of its step (the number of steps: the final
            observation).
        BlobMissing: content is missing.
    """
    with database.read() as conn:
        rows = _rows(conn, trajectory, trajectory.c.id, [trajectory_id])
        if not rows:
            raise not_found(conn, trajectory, "trajectory", trajectory_id)
        if verify:
            final_observation(database, trajectory_id)
        return _fill(database, conn, rows, texts=True, verify=verify)[0]


def load_trajectories(database: Database, trajectories: Sequence[str], *, texts: bool = False) -> list[Trajectory]:
    """Return trajectories in the given order, with their steps and messages; ``texts`` as in ``load_groups``.

    Raises:
        NotFound: a trajectory is not in the store.
        StepCorrupt: content was altered.
        BlobMissing: content is missing.
    """
    with database.read() as conn:
        rows = _rows(conn, trajectory, trajectory.c.id, trajectories)
        found = {one.id: one for one in _fill(database, conn, rows, texts=texts, verify=True)}
    if missing := [name for name in trajectories if name not in found]:
        raise NotFound(f"no trajectory {missing[0]} in the store")
    return [found[name] for name in trajectories]


def load_groups(database: Database, groups: Sequence[str], *, texts: bool = False) -> list[Group]:
    """Return groups in the given order, each with the latest attempt of every member.

    With ``texts``, steps have their observation texts, which a learner on tokens does not read.

    Raises:
        NotFound: a group is not in the store.
        StepCorrupt: content was altered.
        BlobMissing: content is missing.
    """
    with database.read() as conn:
        heads = {group.id: group for group in load_group_heads(conn, groups)}
        latest: dict[tuple[str, int], Row[Any]] = {}
        for row in sorted(_rows(conn, trajectory, trajectory.c.group_id, groups), key=lambda row: row.attempt):
            latest[row.group_id, row.member] = row
        members: dict[str, list[Trajectory]] = defaultdict(list)
        for full in _fill(database, conn, [latest[key] for key in sorted(latest)], texts=texts, verify=True):
            members[full.group].append(full)
    return [replace(heads[group], trajectories=tuple(members[group])) for group in groups]


def load_group_heads(conn: Connection, groups: Sequence[str]) -> list[Group]:
    """Return groups in the given order, without their trajectories. Raises NotFound."""
    tasks_of = {row.id: row for row in _rows(conn, rollout_group, rollout_group.c.id, groups)}
    if missing := [group for group in groups if group not in tasks_of]:
        raise NotFound(f"no group {missing[0]} in the store")
    tasks = {row.id: _task(row) for row in _rows(conn, task, task.c.id, {row.task_id for row in tasks_of.values()})}
    return [_group(tasks_of[group], tasks[tasks_of[group].task_id]) for group in groups]


def group_of(conn: Connection, trajectory_id: str) -> Group:
    """Return the group of a trajectory with its task and horizon, without its trajectories. Raises NotFound."""
    found = conn.execute(select(trajectory.c.group_id).where(trajectory.c.id == trajectory_id)).scalar_one_or_none()
    if found is None:
        raise not_found(conn, trajectory, "trajectory", trajectory_id)
    return load_group_heads(conn, [found])[0]


def final_observation(database: Database, trajectory_id: str) -> str | None:
    """Return the text of a trajectory's final observation; None if it is running or was cancelled.

    Raises:
        NotFound: the trajectory is not in the store.
        StepCorrupt: the text was altered; ``step`` is the number of steps.
    """
    columns = select(trajectory.c.final_observation_blob, trajectory.c.n_steps).where(trajectory.c.id == trajectory_id)
    with database.read() as conn:
        row = conn.execute(columns).one_or_none()
        if row is None:
            raise not_found(conn, trajectory, "trajectory", trajectory_id)
        if row.final_observation_blob is None:
            return None
        try:
            return unescape(database.blobs.get(conn, row.final_observation_blob).decode())
        except BlobCorrupt as error:
            raise StepCorrupt(f"trajectory {trajectory_id}, the final observation: {error}", row.n_steps) from error


def _rows(conn: Connection, table: Any, column: Any, keys: Iterable[str]) -> list[Row[Any]]:
    wanted = sorted(set(keys))
    statement = select(table).where(column.in_(bindparam("keys", expanding=True)))
    if "idx" in table.c:
        statement = statement.order_by(table.c.trajectory_id, table.c.idx)
    found: list[Row[Any]] = []
    for start in range(0, len(wanted), _CHUNK):
        found.extend(conn.execute(statement, {"keys": wanted[start : start + _CHUNK]}))
    return found


def _fill(
    database: Database, conn: Connection, heads: Sequence[Row[Any]], *, texts: bool, verify: bool
) -> list[Trajectory]:
    ids = [head.id for head in heads]
    step_rows = _rows(conn, step, step.c.trajectory_id, ids)
    message_rows = _rows(conn, message, message.c.trajectory_id, ids)
    names = {row.tokens_blob for row in message_rows}
    if texts:
        names.update(row.observation_blob for row in step_rows)
    contents = database.blobs.get_unchecked(conn, names)
    if verify:
        _verify(contents, step_rows, message_rows, texts=texts)
    step_pictures = _images(_rows(conn, step_image, step_image.c.trajectory_id, ids), "step_idx")
    message_pictures = _images(_rows(conn, message_image, message_image.c.trajectory_id, ids), "message_idx")
    steps: dict[str, list[Step]] = defaultdict(list)
    for row in step_rows:
        text = _text(contents[row.observation_blob]) if texts else ""
        steps[row.trajectory_id].append(_step(row, text, step_pictures[row.trajectory_id, row.idx]))
    messages: dict[str, list[Message]] = defaultdict(list)
    for row in message_rows:
        images = message_pictures[row.trajectory_id, row.idx]
        messages[row.trajectory_id].append(_message(row, contents[row.tokens_blob], images))
    return [_trajectory(head, steps[head.id], messages[head.id]) for head in heads]


def _verify(
    contents: dict[str, bytes], step_rows: Sequence[Row[Any]], message_rows: Sequence[Row[Any]], *, texts: bool
) -> None:
    altered: set[str] = set()
    for name, data in contents.items():
        try:
            check(name, data)
        except BlobCorrupt:
            altered.add(name)
    if not altered:
        return
    turns = {(row.trajectory_id, row.message_idx): row.idx for row in step_rows}
    broken = [
        (row.trajectory_id, row.idx, "observation", row.observation_blob)
        for row in step_rows
        if texts and row.observation_blob in altered
    ]
    broken += [
        (
            row.trajectory_id,
            turns.get((row.trajectory_id, row.idx), -1),
            f"tokens of message {row.idx}",
            row.tokens_blob,
        )
        for row in message_rows
        if row.tokens_blob in altered
    ]
    where, index, what, name = min(broken, key=lambda one: (one[0], one[1] < 0, one[1]))
    at = f", step {index}" if index >= 0 else ""
    raise StepCorrupt(f"trajectory {where}{at}: the {what} was altered (blob {name} has another hash)", index)


def _images(rows: Sequence[Row[Any]], column: str) -> dict[tuple[str, int], list[str]]:
    found: dict[tuple[str, int], list[str]] = defaultdict(list)
    for row in rows:
        found[row.trajectory_id, row._mapping[column]].append(row.blob_hash)
    return found


def _text(data: bytes) -> str:
    return unescape(data.decode(errors="replace"))


def _step(row: Row[Any], observation: str, images: Sequence[str]) -> Step:
    return Step(
        index=row.idx,
        observation=observation,
        observation_hash=row.observation_hash,
        action=row.action,
        reward=row.reward,
        reward_parts=row.reward_parts or {},
        terminated=row.terminated,
        truncated=row.truncated,
        action_valid=row.action_valid,
        state_key=row.state_key,
        message=row.message_idx,
        model_ms=row.model_ms,
        env_ms=row.env_ms,
        images=tuple(images),
        created_at=row.created_at,
    )


def _message(row: Row[Any], data: bytes, images: Sequence[str]) -> Message:
    columns = decode(data)
    return Message(
        index=row.idx,
        parent=row.parent_idx,
        role=Role(row.role),
        source=Source(row.source),
        tokens=columns.tokens,
        mask=columns.mask,
        logprobs=columns.logprobs,
        versions=columns.versions,
        images=tuple(images),
    )


def _trajectory(row: Row[Any], steps: Sequence[Step], messages: Sequence[Message]) -> Trajectory:
    return Trajectory(
        id=row.id,
        run=row.run_id,
        group=row.group_id,
        member=row.member,
        attempt=row.attempt,
        status=Status(row.status),
        source=Source(row.source),
        policy=row.policy,
        reward=row.reward,
        success=row.success,
        error=row.error,
        final_observation_hash=row.final_observation_hash,
        deterministic=row.deterministic,
        extras=row.extras,
        steps=tuple(steps),
        messages=tuple(messages),
        branched_from=row.branched_from,
        branched_at=row.branched_at,
    )


def _task(row: Row[Any]) -> Task:
    return Task(
        id=row.id, env_id=row.env_id, env_version=row.env_version, seed=row.seed, split=row.split, options=row.options
    )


def _group(row: Row[Any], of: Task) -> Group:
    return Group(
        id=row.id,
        run=row.run_id,
        task=of,
        horizon=Horizon(row.max_turns, row.max_tokens_per_turn, row.max_tokens_per_episode, row.max_context),
        size=row.size,
        purpose=Purpose(row.purpose),
        prompt_prefix=row.prompt_prefix,
        state=GroupState(row.state),
    )
