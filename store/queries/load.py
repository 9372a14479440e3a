"""From rows to records: whole trajectories and groups. Every row and content is compared with its digest."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from sqlalchemy import Column, Connection, Select, Table, select

from ...records import Group, GroupState, Horizon, Limit, Message, Purpose, Source, Status, Step, Task, Trajectory
from ..content.blobs import check
from ..content.turn_rows import TABLES, Row, TurnRows, messages_of, rows_with, turn_rows
from ..database import Database
from ..errors import BlobCorrupt, NotFound, Pruned, StepCorrupt
from ..schema import (
    SCREENSHOT,
    message_image,
    partial_turn,
    rollout_group,
    run,
    step,
    step_image,
    task,
    trajectory,
)
from ..schema.types import unescape
from .nearest import not_found
from .turns import n_turns


def verify_rows(head: Mapping[Any, Any], rows: TurnRows, *, whole: bool = True) -> None:
    """Check that the rows of a trajectory are those that were written.

    ``head`` is a row of ``queries.load.HEADS``. A running trajectory has no seal yet. Of rows that are not the
    ``whole`` trajectory, each is checked alone.

    Raises:
        StepCorrupt: a row was altered, exchanged, added or deleted; ``step`` is the index of its step (the number of
            steps: the trajectory itself).
    """
    name, end = head["id"], len(rows[step])
    for table, row in rows.altered():
        if table is step:
            raise StepCorrupt(f"trajectory {name}{_at(row['idx'])}: the step was altered", row["idx"])
        raise StepCorrupt(f"trajectory {name}: the messages after the last step were altered", end)
    if whole and head["seal"] != rows.seal(head):
        problem = "a column, or a step, message or image, was altered, exchanged, added or deleted"
        raise StepCorrupt(f"trajectory {name}: {problem}", end)


def verify_content(trajectory: str, rows: TurnRows, contents: Mapping[str, bytes]) -> None:
    """Check that each long content has the hash that names it; contents that were not loaded are not checked.

    Raises:
        StepCorrupt: a content was altered; ``step`` is the index of its step.
    """
    steps = rows[step]
    owners = [(row["idx"], "observation was", row["observation_blob"]) for row in steps]
    owners += [(row["idx"], "messages were", row["messages_blob"]) for row in steps]
    owners += [
        (len(steps), "messages after the last step were", row["messages_blob"])
        for table, row in rows.turns
        if table is not step
    ]
    for turn, what, blob in owners:
        if blob is None or blob not in contents:
            continue
        try:
            check(blob, contents[blob])
        except BlobCorrupt as error:
            raise StepCorrupt(
                f"trajectory {trajectory}{_at(turn)}: the {what} altered (blob {blob} has another hash)", turn
            ) from error


def _at(turn: int) -> str:
    return f", step {turn}"


_parent = trajectory.alias("parent")
HEADS = (
    select(trajectory, rollout_group.c.id.label("group_id"), run.c.id.label("run_id"), _parent.c.id.label("parent_id"))
    .join(rollout_group, rollout_group.c.no == trajectory.c.group_no)
    .join(run, run.c.no == trajectory.c.run_no)
    .join(_parent, _parent.c.no == trajectory.c.branched_from, isouter=True)
)
_OF_STEP = (
    *("observation_hash", "action", "reward", "terminated", "truncated", "action_valid", "state_key", "model_ms"),
    *("env_ms", "created_at", "failed", "agent"),
)
_OF_TRAJECTORY = (
    *("id", "member", "attempt", "policy", "reward", "success", "error", "stop_reason", "deterministic", "extras"),
    *("branched_at", "uid"),
)
_OF_TASK = ("env_id", "env_version", "seed", "split", "options")
"""The fields of records that are columns of their names."""
_GROUPS = (
    select(rollout_group, run.c.id.label("run_id"), task.c.id.label("task_id"), *(task.c[name] for name in _OF_TASK))
    .join(run, run.c.no == rollout_group.c.run_no)
    .join(task, task.c.no == rollout_group.c.task_no)
)


def load_trajectory(database: Database, trajectory_id: str, *, verify: bool = True) -> Trajectory:
    """Return a trajectory with its steps and messages. With ``verify=False``, altered content is returned as it is.

    Raises:
        NotFound: the trajectory is not in the store.
        Pruned: retention removed its content.
        StepCorrupt: content was altered; ``step`` is the index of its step (the number of steps: the end).
        BlobMissing: content is missing.
    """
    with database.read() as conn:
        rows = rows_with(conn, HEADS, trajectory.c.id, [trajectory_id])
        if not rows:
            raise not_found(conn, trajectory, "trajectory", trajectory_id)
        if verify:
            _final_text(database, conn, rows[0])
        return _fill(database, conn, rows, texts=True, verify=verify)[0]


def load_turns(database: Database, trajectory_id: str, first: int, last: int, *, texts: bool = True) -> Trajectory:
    """Return a trajectory with its turns from ``first`` to ``last``, which is left out, and the messages of these.

    Each turn is compared with its digest. An alteration of the others or of the trajectory's own columns is not found,
    nor a row that was added or deleted between them: ``load_trajectory`` finds it. ``texts`` as in ``load_groups``.
    Raises as ``load_trajectory`` does.
    """
    with database.read() as conn:
        heads = rows_with(conn, HEADS, trajectory.c.id, [trajectory_id])
        if not heads:
            raise not_found(conn, trajectory, "trajectory", trajectory_id)
        _check_whole(heads[0])
        no, end = heads[0]["no"], n_turns(conn, trajectory_id)
        rows = TurnRows({table: [] for table in TABLES})
        rows[step] = rows_with(conn, _span(step, step.c.idx, first, last), step.c.trajectory_no, [no])
        shown = _span(step_image, step_image.c.step_idx, first, min(last, end))
        rows[step_image] = rows_with(conn, shown, step_image.c.trajectory_no, [no])
        if last >= end:
            at_end = _span(step_image, step_image.c.step_idx, end, end + 1)
            rows[step_image] += rows_with(conn, at_end, step_image.c.trajectory_no, [no])
            rows[partial_turn] = rows_with(conn, select(partial_turn), partial_turn.c.trajectory_no, [no])
        contents = _contents(database, conn, [rows], texts=texts)
        indices = [one.index for _, row in rows.turns[:1] + rows.turns[-1:] for one in messages_of(row, contents)]
        if indices:
            of = _span(message_image, message_image.c.message_idx, min(indices), max(indices) + 1)
            rows[message_image] = rows_with(conn, of, message_image.c.trajectory_no, [no])
    verify_rows(heads[0], rows, whole=False)
    verify_content(trajectory_id, rows, contents)
    return _trajectory_of(heads[0], rows, contents, end, texts=texts)


def _span(table: Table, column: Column[int], first: int, last: int) -> Select[Any]:
    return select(table).where(column >= first, column < last).order_by(*table.primary_key)


def load_trajectories(database: Database, trajectories: Sequence[str], *, texts: bool = False) -> list[Trajectory]:
    """Return trajectories in the given order, with their steps and messages; ``texts`` as in ``load_groups``. Raises as
    ``load_trajectory`` does.
    """
    with database.read() as conn:
        rows = rows_with(conn, HEADS, trajectory.c.id, trajectories)
        found = {one.id: one for one in _fill(database, conn, rows, texts=texts, verify=True)}
    if missing := [name for name in trajectories if name not in found]:
        raise NotFound(f"no trajectory {missing[0]} in the store")
    return [found[name] for name in trajectories]


def load_groups(database: Database, groups: Sequence[str], *, texts: bool = False) -> list[Group]:
    """Return groups in the given order, each with the latest attempt of every member.

    With ``texts``, steps have their observation texts, which a learner on tokens does not read. Raises as
    ``load_trajectory`` does, for a group or the content of a member.
    """
    with database.read() as conn:
        heads = {group.id: group for group in load_group_heads(conn, groups)}
        latest: dict[tuple[str, int], Row] = {}
        for row in sorted(rows_with(conn, HEADS, rollout_group.c.id, groups), key=lambda row: row["attempt"]):
            latest[row["group_id"], row["member"]] = row
        members: dict[str, list[Trajectory]] = defaultdict(list)
        for full in _fill(database, conn, [latest[key] for key in sorted(latest)], texts=texts, verify=True):
            members[full.group].append(full)
    return [replace(heads[group], trajectories=tuple(members[group])) for group in groups]


def load_group_heads(conn: Connection, groups: Sequence[str]) -> list[Group]:
    """Return groups in the given order, without their trajectories. Raises NotFound."""
    found = {row["id"]: _group(row) for row in rows_with(conn, _GROUPS, rollout_group.c.id, groups)}
    if missing := [group for group in groups if group not in found]:
        raise NotFound(f"no group {missing[0]} in the store")
    return [found[group] for group in groups]


def group_of(conn: Connection, trajectory_id: str) -> Group:
    """Return the group of a trajectory with its task and horizon, without its trajectories. Raises NotFound."""
    which = (
        select(rollout_group.c.id)
        .join(trajectory, trajectory.c.group_no == rollout_group.c.no)
        .where(trajectory.c.id == trajectory_id)
    )
    found = conn.execute(which).scalar_one_or_none()
    if found is None:
        raise not_found(conn, trajectory, "trajectory", trajectory_id)
    return load_group_heads(conn, [found])[0]


def final_observation(database: Database, trajectory_id: str) -> str | None:
    """Return the text of a trajectory's final observation; None if it is running or was cancelled.

    Raises:
        NotFound: the trajectory is not in the store.
        StepCorrupt: the text was altered; ``step`` is the number of steps.
    """
    with database.read() as conn:
        row = conn.execute(select(trajectory).where(trajectory.c.id == trajectory_id)).mappings().one_or_none()
        if row is None:
            raise not_found(conn, trajectory, "trajectory", trajectory_id)
        return _final_text(database, conn, row)


def _final_text(database: Database, conn: Connection, row: Mapping[Any, Any]) -> str | None:
    if row["final_observation_blob"] is None:
        text: str | None = row["final_observation"]
        return text
    try:
        return _text(database.blobs.get(conn, row["final_observation_blob"]))
    except BlobCorrupt as error:
        raise StepCorrupt(f"trajectory {row['id']}, the final observation: {error}", row["n_steps"]) from error


def _fill(database: Database, conn: Connection, heads: Sequence[Row], *, texts: bool, verify: bool) -> list[Trajectory]:
    """Return trajectories with their content. Raises Pruned, StepCorrupt, BlobMissing."""
    rows = turn_rows(conn, (head["no"] for head in heads))
    for head in heads:
        _check_whole(head)
    contents = _contents(database, conn, rows.values(), texts=texts)
    for head in heads if verify else ():
        verify_rows(head, rows[head["no"]])
        verify_content(head["id"], rows[head["no"]], contents)
    ends = {no: len(of[step]) for no, of in rows.items()}
    return [_trajectory_of(head, rows[head["no"]], contents, ends[head["no"]], texts=texts) for head in heads]


def _contents(database: Database, conn: Connection, rows: Iterable[TurnRows], *, texts: bool) -> dict[str, bytes]:
    columns = ("messages_blob", "observation_blob") if texts else ("messages_blob",)
    named = (row.get(name) for of in rows for _, row in of.turns for name in columns)
    return database.blobs.get_unchecked(conn, {name for name in named if name is not None})


def _trajectory_of(head: Row, rows: TurnRows, contents: Mapping[str, bytes], end: int, *, texts: bool) -> Trajectory:
    of_steps, of_messages = rows.images(step_image), _hashes(rows.images(message_image))
    turns: list[Step] = []
    messages: list[Message] = []
    for table, row in rows.turns:
        added = _messages(head["id"], row, contents, of_messages)
        messages += added
        if table is step:
            observation = _observation(row, contents) if texts else ""
            turns.append(_step(row, observation, of_steps[row["idx"]], added[-1].index if added else None))
    messages.sort(key=attrgetter("index"))
    return _trajectory(head, turns, messages, of_steps[end])


def _check_whole(head: Mapping[Any, Any]) -> None:
    if head["pruned_at"] is not None:
        raise Pruned(
            f"retention removed content of trajectory {head['id']} at {head['pruned_at']:%Y-%m-%d %H:%M} UTC: its "
            "result is kept, its tokens and observations are not; raise `--keep-versions` of `turnwise db gc` to keep "
            "those of later trajectories for longer"
        )


def _hashes(images: Mapping[int, Sequence[Row]]) -> dict[int, list[str]]:
    return {idx: [row["blob_hash"] for row in rows] for idx, rows in images.items()}


def _pictures(rows: Sequence[Row]) -> tuple[str, tuple[str, ...]]:
    """Return the hash of the screenshot that the run kept, and those of the images of the observation."""
    screenshot = "".join(row["blob_hash"] for row in rows if row["idx"] == SCREENSHOT)
    return screenshot, tuple(row["blob_hash"] for row in rows if row["idx"] != SCREENSHOT)


def _text(data: bytes) -> str:
    return unescape(data.decode(errors="replace"))


def _observation(row: Row, contents: Mapping[str, bytes]) -> str:
    blob = row["observation_blob"]
    return row["observation"] or "" if blob is None else _text(contents[blob])


def _step(row: Row, observation: str, pictures: Sequence[Row], message: int | None) -> Step:
    screenshot, images = _pictures(pictures)
    return Step(
        index=row["idx"],
        observation=observation,
        reward_parts=row["reward_parts"] or {},
        message=message,
        images=images,
        screenshot=screenshot,
        cut_by=Limit(row["cut_by"]) if row["cut_by"] else None,
        **{name: row[name] for name in _OF_STEP},
    )


def _messages(of: str, row: Row, contents: Mapping[str, bytes], images: Mapping[int, Sequence[str]]) -> list[Message]:
    try:
        return messages_of(row, contents, images)
    except StepCorrupt as error:
        raise StepCorrupt(f"trajectory {of}: {error}", error.step) from error


def _trajectory(row: Row, steps: Sequence[Step], messages: Sequence[Message], pictures: Sequence[Row]) -> Trajectory:
    final_screenshot, final_images = _pictures(pictures)
    return Trajectory(
        run=row["run_id"],
        group=row["group_id"],
        status=Status(row["status"]),
        source=Source(row["source"]),
        final_observation_hash=row["final_observation_hash"] or "",
        final_images=final_images,
        final_screenshot=final_screenshot,
        steps=tuple(steps),
        messages=tuple(messages),
        branched_from=row["parent_id"],
        reached=Limit(row["reached"]) if row["reached"] else None,
        **{name: row[name] for name in _OF_TRAJECTORY},
    )


def _group(row: Row) -> Group:
    return Group(
        run=row["run_id"],
        task=Task(id=row["task_id"], **{name: row[name] for name in _OF_TASK}),
        horizon=Horizon(**{name: row[name] for name in Horizon.__slots__}),
        purpose=Purpose(row["purpose"]),
        state=GroupState(row["state"]),
        **{name: row[name] for name in ("id", "size", "prompt_prefix", "draw")},
    )
