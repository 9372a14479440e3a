"""Writes about trajectories: started, finished and cancelled. ``steps`` writes their turns."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, func, select, update
from sqlalchemy.exc import IntegrityError

from ...records import GroupState, Status, Trajectory
from ..content.blobs import NewBlob
from ..content.digests import digest_of
from ..content.rows import text_columns
from ..content.stored_turns import stored_tally
from ..content.written import Tally
from ..errors import Fenced, NotFound, StoreConflict
from ..schema import insert_once, no_of, partial_turn, rollout_group, step, step_image, task
from ..schema import trajectory as trajectory_table
from ..schema.types import uuid7
from .runs import fence
from .transaction import CHUNK, Transaction, operation

DROPPED = "dropped by the rollout controller"
"""The beginning of the ``error`` of a cancelled trajectory that its group did not need: not a failure."""
HEAD_COLUMNS = tuple(
    column.name for column in trajectory_table.c if column.name not in ("no", "abandoned", "pruned_at", "digest")
)
"""The columns of a trajectory that its head digest covers; the others change after its end."""
GROUP_COLUMNS = (
    *(rollout_group.c[name].label(f"group_{name}") for name in ("id", "purpose", "prompt_prefix")),
    *(rollout_group.c[name] for name in ("max_turns", "max_tokens_per_turn", "max_tokens_per_episode", "max_context")),
    rollout_group.c.created_at.label("group_created_at"),
    *(task.c[name].label(f"task_{name}") for name in ("id", "env_version", "seed", "split", "options")),
)
"""The columns of a trajectory's group that its head digest covers."""
_DIGESTED = (*HEAD_COLUMNS, *(column.name for column in GROUP_COLUMNS))

_GROUPS = (
    select(
        rollout_group.c.id,
        rollout_group.c.no,
        rollout_group.c.run_no,
        rollout_group.c.state,
        rollout_group.c.purpose,
        task.c.env_id,
    )
    .join_from(rollout_group, task)
    .where(rollout_group.c.id.in_(bindparam("names", expanding=True)))
    .order_by(rollout_group.c.no)
    .with_for_update(read=True, of=rollout_group)
)
_BEGUN = (
    *("no", "uid", "id", "run_no", "group_no", "member", "attempt", "writer", "status", "env_id", "purpose", "source"),
    *("policy", "deterministic", "branched_from", "branched_at", "created_at"),
)
"""The columns of a trajectory that its start wrote, and its status; its end writes the others."""
_HEADS = (
    select(*(trajectory_table.c[name] for name in _BEGUN))
    .order_by(trajectory_table.c.no)
    .with_for_update(key_share=True)
)
_CIRCUMSTANCES = (
    select(rollout_group.c.no.label("group_no"), *GROUP_COLUMNS)
    .join_from(rollout_group, task)
    .where(rollout_group.c.no.in_(bindparam("names", expanding=True)))
)
_BY_NAME = _HEADS.where(trajectory_table.c.id.in_(bindparam("names", expanding=True)))
_BY_NO = _HEADS.where(trajectory_table.c.no.in_(bindparam("names", expanding=True)))
_WRITERS = select(trajectory_table.c.id, trajectory_table.c.writer).where(
    trajectory_table.c.id.in_(bindparam("names", expanding=True))
)


@dataclass(frozen=True, slots=True)
class Start:
    """The arguments of one ``start_trajectory``."""

    trajectory: Trajectory
    writer: str = ""


@dataclass(frozen=True, slots=True)
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
    stored = _writers(tx.conn, starts)
    new = [one for one in starts if one.trajectory.id not in stored]
    _check_writers([one for one in starts if one.trajectory.id in stored], stored)
    if not new:
        return
    groups = {row.id: row for row in _chunked(tx.conn, _GROUPS, {one.trajectory.group for one in new})}
    rows = [_new_row(tx, one, groups.get(one.trajectory.group)) for one in new]
    try:
        tx.conn.execute(insert_once(tx.conn.dialect.name, trajectory_table), rows)
    except IntegrityError as error:
        first = new[0].trajectory
        which = f"attempt {first.attempt} of member {first.member} of group {first.group}"
        raise StoreConflict(f"{which} has another trajectory than {first.id}") from error
    if tx.conn.dialect.name != "sqlite":
        # A concurrent transaction may have inserted the same id first.
        _check_writers(new, _writers(tx.conn, new))


def _new_row(tx: Transaction, start: Start, group: Any) -> dict[str, Any]:
    trajectory = start.trajectory
    if group is None:
        raise NotFound(f"no group {trajectory.group} in the store; call `open_group` first")
    if group.state != GroupState.OPEN.value:
        raise StoreConflict(f"group {trajectory.group} is {group.state}, so no trajectory can be added")
    parent = None
    if trajectory.branched_from is not None:
        parent = tx.conn.execute(select(no_of(trajectory_table, trajectory.branched_from))).scalar_one_or_none()
        if parent is None:
            raise NotFound(f"no trajectory {trajectory.branched_from} in the store")
    return {
        "uid": trajectory.uid or uuid7(),
        "id": trajectory.id,
        "run_no": group.run_no,
        "group_no": group.no,
        "member": trajectory.member,
        "attempt": trajectory.attempt,
        "writer": start.writer,
        "status": Status.RUNNING.value,
        "env_id": group.env_id,
        "purpose": group.purpose,
        "source": trajectory.source.value,
        "policy": trajectory.policy,
        "deterministic": trajectory.deterministic,
        "branched_from": parent,
        "branched_at": trajectory.branched_at,
        "created_at": tx.now,
    }


def _writers(conn: Connection, starts: Sequence[Start]) -> dict[str, str]:
    """Return the writers of the stored trajectories among ``starts``, by id."""
    return {row.id: row.writer for row in _chunked(conn, _WRITERS, {one.trajectory.id for one in starts})}


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
    _finish(tx, [(heads[one.trajectory], one) for one in ends if _is_open(one, heads.get(one.trajectory))])


def _finish(tx: Transaction, ends: Sequence[tuple[dict[str, Any], End]]) -> None:
    """End running trajectories, each given by its head and its end."""
    if not ends:
        return
    tallies = _tallies(tx, ends)
    nos = {head["group_no"] for head, _ in ends}
    groups = {row.group_no: row._asdict() for row in _chunked(tx.conn, _CIRCUMSTANCES, nos)}
    blobs: dict[str, NewBlob] = {}
    images: list[dict[str, Any]] = []
    ended: list[dict[str, Any]] = []
    for head, one in ends:
        tally = tallies[head["no"]]
        blobs |= {new.hash: new for new in one.final_images}
        key = {"trajectory_no": head["no"], "step_idx": tally.n_steps}
        images += [dict(key, idx=idx, blob_hash=new.hash) for idx, new in enumerate(one.final_images)]
        ended.append({**_tally_values(tally), **_end_values(one, blobs), "ended_at": tx.now})
    if blobs:
        tx.blobs.insert(tx.conn, blobs, tx.now)
    if images:
        tx.conn.execute(insert_once(tx.conn.dialect.name, step_image), images)
    for (head, _), values in zip(ends, ended, strict=True):
        values["digest"] = head_digest({**head, **groups[head["group_no"]], **values})
        values["key"] = head["no"]
    tx.conn.execute(_END, ended)


def _is_open(end: End, head: Mapping[str, Any] | None) -> bool:
    """Return whether the trajectory still runs; False if it has ended in the same way."""
    if end.status is Status.RUNNING:
        raise ValueError("a trajectory cannot end as running")
    if head is None:
        raise NotFound(f"no trajectory {end.trajectory} in the store")
    _check_writer(end.trajectory, head["writer"], end.writer)
    if head["status"] == Status.RUNNING.value:
        return True
    if head["status"] != end.status.value:
        raise StoreConflict(f"trajectory {end.trajectory} ended as {head['status']}; it cannot end as {end.status}")
    return False


def _end_values(end: End, blobs: dict[str, NewBlob]) -> dict[str, Any]:
    """Return the columns of an end; a long final observation is added to ``blobs``."""
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
    }


def _tally_values(tally: Tally) -> dict[str, Any]:
    return {
        "n_steps": tally.n_steps,
        "n_tokens": tally.n_tokens,
        "min_version": tally.min_version,
        "max_version": tally.max_version,
        "content_digest": tally.content,
    }


def _check_whole(trajectory: str, what: str, written: int, stored: int) -> None:
    if written != stored:
        raise StoreConflict(
            f"`finish_trajectory` of {trajectory} failed: the store has {stored} {what}, but {written} were written; "
            "run the same command again to resume the run"
        )


_END = update(trajectory_table).where(trajectory_table.c.no == bindparam("key"))
_COUNTS = tuple(
    select(table.c.trajectory_no, func.count())
    .where(table.c.trajectory_no.in_(bindparam("names", expanding=True)))
    .group_by(table.c.trajectory_no)
    for table in (step, partial_turn)
)


def _tallies(tx: Transaction, ends: Sequence[tuple[dict[str, Any], End]]) -> dict[int, Tally]:
    """Return, by ``no``, the tally of each trajectory's player, or that of the stored rows. Raises StoreConflict."""
    counted = [head["no"] for head, one in ends if one.tally is not None]
    steps, partial = (dict(map(tuple, _chunked(tx.conn, statement, counted))) for statement in _COUNTS)
    found: dict[int, Tally] = {}
    for head, one in ends:
        no, tally = head["no"], one.tally
        if tally is None:
            tally = stored_tally(tx.conn, tx.blobs, no, [new.hash for new in one.final_images])
        else:
            _check_whole(one.trajectory, "steps", tally.n_steps, steps.get(no, 0))
            _check_whole(one.trajectory, "partial turns", tally.n_partial, partial.get(no, 0))
        found[no] = tally
    return found


def head_digest(row: Mapping[Any, Any]) -> str:
    """Return the head digest of a trajectory: of its row with ``GROUP_COLUMNS``."""
    return digest_of(map(row.__getitem__, _DIGESTED))


def _heads(conn: Connection, statement: Any, names: Collection[Any]) -> Iterator[dict[str, Any]]:
    return (dict(zip(_BEGUN, row, strict=True)) for row in _chunked(conn, statement, names))


def _chunked(conn: Connection, statement: Any, names: Collection[Any]) -> Iterator[Any]:
    wanted = sorted(set(names))
    for start in range(0, len(wanted), CHUNK):
        yield from conn.execute(statement, {"names": wanted[start : start + CHUNK]})


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
        trajectory_table.c.group_no == row.no, trajectory_table.c.status == Status.RUNNING.value
    )
    return end_running(tx, list(tx.conn.execute(running).scalars()), reason, status)


def end_running(tx: Transaction, trajectories: Sequence[int], reason: str, status: Status) -> int:
    """End running ``trajectories`` (``no``) with the ``status`` of a failure, and return how many. Their steps stay."""
    heads = [head for head in _heads(tx.conn, _BY_NO, trajectories) if head["status"] == Status.RUNNING.value]
    ends = [End(head["id"], status, error=reason, final_observation=None) for head in heads]
    _finish(tx, list(zip(heads, ends, strict=True)))
    return len(heads)
