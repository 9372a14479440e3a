"""Writes about trajectories: started, finished and cancelled. ``steps`` writes their turns."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, func, select
from sqlalchemy.exc import IntegrityError

from ...records import GroupState, Status, Trajectory
from ..content.blobs import NewBlob
from ..content.head_digest import RUNNING_HEAD, head_digest, stored_circumstances, stored_time
from ..content.rows import text_columns
from ..content.stored_turns import stored_tally
from ..content.written import Tally
from ..errors import Fenced, NotFound, StoreConflict
from ..schema import Lookup, insert_once, no_of, partial_turn, rollout_group, step, step_image, task
from ..schema import trajectory as trajectory_table
from ..schema.types import dump_json, escape, flag_text, time_text, uuid7_digits
from .bulk_insert import RowInsert, RowUpdate
from .runs import fence
from .transaction import Transaction, operation

DROPPED = "dropped by the rollout controller"
"""The beginning of the ``error`` of a cancelled trajectory that its group did not need: not a failure."""
_GROUPS = Lookup(
    select(
        rollout_group.c.id,
        rollout_group.c.no,
        rollout_group.c.run_no,
        rollout_group.c.state,
        rollout_group.c.purpose,
        task.c.env_id,
    )
    .join_from(rollout_group, task)
    .order_by(rollout_group.c.no)
    .with_for_update(read=True, of=rollout_group),
    rollout_group.c.id,
)
_BEGUN = (
    *("no", "uid", "id", "run_no", "group_no", "member", "attempt", "writer", "status", "env_id", "purpose", "source"),
    *("policy", "deterministic", "branched_from", "branched_at", "created_at"),
)
"""The columns of a trajectory that its start wrote, and its status; its end writes the others."""
_DETERMINISTIC = _BEGUN.index("deterministic") - 1
_RUNNING, _OPEN = Status.RUNNING.value, GroupState.OPEN.value
_INSERT = RowInsert(trajectory_table, (*_BEGUN[1:], "digest"), conflict="id")
_HEADS = (
    select(*(trajectory_table.c[name] for name in _BEGUN))
    .order_by(trajectory_table.c.no)
    .with_for_update(key_share=True)
)
_BY_NAME = Lookup(_HEADS, trajectory_table.c.id)
_BY_NO = Lookup(_HEADS, trajectory_table.c.no)
_WRITERS = Lookup(select(trajectory_table.c.id, trajectory_table.c.writer), trajectory_table.c.id)


@dataclass(slots=True)
class Start:
    """The arguments of one ``start_trajectory``."""

    trajectory: Trajectory
    writer: str = ""


@dataclass(slots=True)
class End:
    """The arguments of one ``finish_trajectory``, which describes them."""

    trajectory: str
    status: Status
    reward: float = 0.0
    success: bool | None = None
    error: str = ""
    stop_reason: str = ""
    final_observation_hash: str = ""
    final_observation: str | None = ""
    final_images: Sequence[NewBlob] = ()
    extras: Mapping[str, Any] | None = None
    tally: Tally | None = None
    writer: str = ""


@operation
def start_trajectory(tx: Transaction, *, trajectory: Trajectory, writer: str = "") -> None:
    """Store the head of a running trajectory; one of the same writer stays as it is.

    Args:
        writer: names the process and call that write the trajectory; later writes carry it.

    Raises:
        NotFound: its group, or the trajectory that it is a branch of, is not stored.
        Fenced: another writer began the trajectory.
        StoreConflict: the group is closed, or another trajectory has this member and attempt.
    """
    start_many(tx, [Start(trajectory, writer)])


def start_many(tx: Transaction, starts: Sequence[Start]) -> None:
    """Start several trajectories, all or none. Raises as ``start_trajectory`` does."""
    groups = {row.id: row for row in _GROUPS.run_plain(tx.conn, {one.trajectory.group for one in starts})}
    new = starts
    if len(groups) < len({one.trajectory.group for one in starts}) or any(
        row.state != _OPEN for row in groups.values()
    ):
        stored = _writers(tx.conn, starts)
        new = [one for one in starts if one.trajectory.id not in stored]
        _check_writers([one for one in starts if one.trajectory.id in stored], stored)
    if not new:
        return
    now = time_text(tx.now)
    circumstances = stored_circumstances(tx.conn, {row.no for row in groups.values()})
    rows = [_new_row(tx, one, groups.get(one.trajectory.group), now, circumstances) for one in new]
    try:
        inserted = _INSERT.run(tx.conn, rows)
    except IntegrityError as error:
        first = new[0].trajectory
        which = f"attempt {first.attempt} of member {first.member} of group {first.group}"
        raise StoreConflict(f"{which} has another trajectory than {first.id}") from error
    if inserted < len(rows):
        _check_writers(new, _writers(tx.conn, new))


def _new_row(tx: Transaction, start: Start, group: Any, now: str, circumstances: Mapping[int, str]) -> tuple[Any, ...]:
    """Return the values of ``_BEGUN`` except ``no``, and the digest; ``circumstances`` are those of groups."""
    trajectory = start.trajectory
    if group is None:
        raise NotFound(f"no group {trajectory.group} in the store; call `open_group` first")
    if group.state != _OPEN:
        raise StoreConflict(f"group {trajectory.group} is {group.state}, so no trajectory can be added")
    parent = None
    if trajectory.branched_from is not None:
        parent = tx.conn.execute(select(no_of(trajectory_table, trajectory.branched_from))).scalar_one_or_none()
        if parent is None:
            raise NotFound(f"no trajectory {trajectory.branched_from} in the store")
    values = (
        uuid7_digits() if trajectory.uid is None else trajectory.uid.hex,
        trajectory.id,
        group.run_no,
        group.no,
        trajectory.member,
        trajectory.attempt,
        start.writer,
        _RUNNING,
        group.env_id,
        group.purpose,
        trajectory.source.value,
        trajectory.policy,
        bool(trajectory.deterministic),
        parent,
        trajectory.branched_at,
        now,
    )
    head = RUNNING_HEAD | dict(zip(_BEGUN[1:], values, strict=True))
    digest = bytearray.fromhex(head_digest(head, circumstances[group.no]))
    return (*values[:_DETERMINISTIC], flag_text(trajectory.deterministic), *values[_DETERMINISTIC + 1 :], digest)


def _writers(conn: Connection, starts: Sequence[Start]) -> dict[str, str]:
    """Return the writers of the stored trajectories among ``starts``, by id."""
    return {row.id: row.writer for row in _WRITERS.run_plain(conn, {one.trajectory.id for one in starts})}


def _check_writers(starts: Sequence[Start], stored: Mapping[str, str]) -> None:
    for one in starts:
        _check_writer(one.trajectory.id, stored[one.trajectory.id], one.writer)


def _check_writer(trajectory: str, stored: str, writer: str) -> None:
    if stored != writer:
        raise Fenced(f"another process writes trajectory {trajectory}; nothing was stored")


@operation
def finish_trajectory(
    tx: Transaction,
    *,
    trajectory: str,
    status: Status,
    reward: float = 0.0,
    success: bool | None = None,
    error: str = "",
    stop_reason: str = "",
    final_observation_hash: str = "",
    final_observation: str | None = "",
    final_images: Sequence[NewBlob] = (),
    extras: Mapping[str, Any] | None = None,
    tally: Tally | None = None,
    writer: str = "",
) -> None:
    """End a trajectory and count its steps, sampled tokens and versions. The same ending again changes nothing.

    Args:
        error: the reason of a failure.
        stop_reason: the limit that truncated the episode.
        final_images: the images of the final observation.
        extras: JSON values for the record.
        tally: the counts and the digest of the turns that its player wrote; None to compute them from the stored rows.

    Raises:
        NotFound: the trajectory is not in the store.
        Fenced: another writer began the trajectory.
        StoreConflict: it ended with another status before, or the store lacks a part of it.
    """
    end = End(
        trajectory=trajectory,
        status=status,
        reward=reward,
        success=success,
        error=error,
        stop_reason=stop_reason,
        final_observation_hash=final_observation_hash,
        final_observation=final_observation,
        final_images=final_images,
        extras=extras,
        tally=tally,
        writer=writer,
    )
    finish_many(tx, [end])


def finish_many(tx: Transaction, ends: Sequence[End]) -> None:
    """End several trajectories, all or none. Raises as ``finish_trajectory`` does."""
    heads = {head["id"]: head for head in _heads(tx.conn, _BY_NAME, {one.trajectory for one in ends})}
    _finish(tx, [(heads[one.trajectory], one) for one in ends if _still_runs(one, heads.get(one.trajectory))])


def _finish(tx: Transaction, ends: Sequence[tuple[dict[str, Any], End]]) -> None:
    """End running trajectories, each given by its head and its end."""
    if not ends:
        return
    # Another statement: it sees the turns that were committed while the heads were waited for.
    counts = {row[0]: (row[1], row[2]) for row in _COUNTS.run_plain(tx.conn, [head["no"] for head, _ in ends])}
    nos = {head["group_no"] for head, _ in ends}
    groups = stored_circumstances(tx.conn, nos)
    blobs: dict[str, NewBlob] = {}
    images: list[dict[str, Any]] = []
    ended: list[tuple[Any, ...]] = []
    now = time_text(tx.now)
    for head, one in ends:
        tally = _tally(tx, head["no"], one, counts[head["no"]])
        if one.final_images:
            blobs |= {new.hash: new for new in one.final_images}
            key = {"trajectory_no": head["no"], "step_idx": tally.n_steps}
            images += [dict(key, idx=idx, blob_hash=new.hash) for idx, new in enumerate(one.final_images)]
        head |= _end_values(one, tally, blobs)
        head |= {"ended_at": now, "pruned_at": None}
        ended.append(_end_row(head, head_digest(head, groups[head["group_no"]])))
    if blobs:
        tx.blobs.insert(tx.conn, blobs, tx.now)
    if images:
        tx.conn.execute(insert_once(tx.conn.dialect.name, step_image), images)
    _END.run(tx.conn, ended)


def _still_runs(end: End, head: Mapping[str, Any] | None) -> bool:
    """Return whether the trajectory still runs; False if it has ended in the same way."""
    if end.status is Status.RUNNING:
        raise ValueError("a trajectory cannot end as running")
    if head is None:
        raise NotFound(f"no trajectory {end.trajectory} in the store")
    _check_writer(end.trajectory, head["writer"], end.writer)
    if head["status"] == _RUNNING:
        return True
    if head["status"] != end.status.value:
        raise StoreConflict(f"trajectory {end.trajectory} ended as {head['status']}; it cannot end as {end.status}")
    return False


def _end_values(end: End, tally: Tally, blobs: dict[str, NewBlob]) -> dict[str, Any]:
    """Return the columns of an end except its time; a long final observation is added to ``blobs``."""
    final: dict[str, Any] = {"final_observation": None, "final_observation_blob": None}
    if end.final_observation is not None:
        final = text_columns(blobs, "final_observation", end.final_observation)
    return {
        **final,
        "status": end.status.value,
        "reward": float(end.reward),
        "success": None if end.success is None else bool(end.success),
        "error": end.error,
        "stop_reason": end.stop_reason,
        "final_observation_hash": end.final_observation_hash or None,
        "extras": dict(end.extras or {}),
        "n_steps": tally.n_steps,
        "n_tokens": tally.n_tokens,
        "min_version": tally.min_version,
        "max_version": tally.max_version,
        "content_digest": tally.content,
    }


def _end_row(head: Mapping[str, Any], digest: str) -> tuple[Any, ...]:
    """Return the driver's values of ``_ENDED``, and ``no``."""
    final = head["final_observation"]
    return (
        *_ended_plain(head),
        None if (success := head["success"]) is None else flag_text(success),
        head["ended_at"],
        escape(head["error"]),
        escape(head["stop_reason"]),
        None if final is None else escape(final),
        *(None if (name := head[column]) is None else bytearray.fromhex(name) for column in _ENDED_HASHES),
        bytearray.fromhex(digest),
        dump_json(head["extras"]) if head["extras"] else "{}",
        head["no"],
    )


def _check_whole(trajectory: str, what: str, written: int, stored: int) -> None:
    if written != stored:
        raise StoreConflict(
            f"`finish_trajectory` of {trajectory} failed: the store has {stored} {what}, but {written} were written; "
            "run the same command again to resume the run"
        )


_ENDED_PLAIN = ("status", "reward", "n_steps", "n_tokens", "min_version", "max_version")
_ended_plain = itemgetter(*_ENDED_PLAIN)
_ENDED_HASHES = ("final_observation_blob", "final_observation_hash", "content_digest")
_ENDED = (
    *_ENDED_PLAIN,
    "success",
    "ended_at",
    "error",
    "stop_reason",
    "final_observation",
    *_ENDED_HASHES,
    "digest",
    "extras",
)
"""The columns that the end of a trajectory writes, in the order of ``_end_row``."""
_END = RowUpdate(trajectory_table, _ENDED)


_COUNTS = Lookup(
    select(
        trajectory_table.c.no,
        *(
            select(func.count()).where(table.c.trajectory_no == trajectory_table.c.no).scalar_subquery()
            for table in (step, partial_turn)
        ),
    ),
    trajectory_table.c.no,
)


def _tally(tx: Transaction, no: int, end: End, rows: tuple[int, int]) -> Tally:
    """Return the tally of the trajectory's player, whose counts are those of the stored ``rows`` of steps and partial
    turns, or else the tally of these rows. Raises StoreConflict.
    """
    tally = end.tally
    if tally is None:
        return stored_tally(tx.conn, tx.blobs, no, [new.hash for new in end.final_images])
    _check_whole(end.trajectory, "steps", tally.n_steps, rows[0])
    _check_whole(end.trajectory, "partial turns", tally.n_partial, rows[1])
    return tally


def _heads(conn: Connection, lookup: Lookup, names: Collection[Any]) -> Iterator[dict[str, Any]]:
    """Yield ``_BEGUN`` of trajectories, in the form of the values that a digest covers."""
    for row in lookup.run_plain(conn, names):
        head = dict(zip(_BEGUN, row, strict=True))
        uid, deterministic = head["uid"], head["deterministic"]
        head["uid"] = uid if isinstance(uid, str) else uid.hex
        head["created_at"] = stored_time(head["created_at"])
        head["deterministic"] = bool(deterministic)
        yield head


@operation
def cancel_trajectories(
    tx: Transaction, *, group: str, reason: str, status: Status = Status.CANCELLED, epoch: int | None = None
) -> int:
    """End the running trajectories of a group whose worker died or timed out, and return how many those were.

    Raises:
        Fenced: another driver has taken over the run.
    """
    row = tx.conn.execute(
        select(rollout_group.c.no, rollout_group.c.run_no).where(rollout_group.c.id == group)
    ).one_or_none()
    if row is None:
        return 0
    fence(tx, row.run_no, epoch)
    running = select(trajectory_table.c.no).where(
        trajectory_table.c.group_no == row.no, trajectory_table.c.status == _RUNNING
    )
    return end_running(tx, list(tx.conn.execute(running).scalars()), reason, status)


def end_running(tx: Transaction, trajectories: Sequence[int], reason: str, status: Status) -> int:
    """End running ``trajectories`` (``no``) with the ``status`` of a failure, and return how many. Their steps stay."""
    heads = [head for head in _heads(tx.conn, _BY_NO, trajectories) if head["status"] == _RUNNING]
    ends = [End(head["id"], status, error=reason, final_observation=None) for head in heads]
    _finish(tx, list(zip(heads, ends, strict=True)))
    return len(heads)
