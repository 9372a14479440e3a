"""The end of trajectories: by their episode, by the rollout controller or by the driver."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, func, select

from ...records import EndedBy, Limit, Status
from ..content.blobs import NewBlob
from ..content.digests import seal
from ..content.rows import INLINE_TEXT, Tally, text_blob
from ..content.turn_rows import turn_rows
from ..errors import NotFound, StoreConflict
from ..schema import Lookup, insert_once, partial_turn, rollout_group, step, step_image
from ..schema import trajectory as trajectory_table
from ..schema.types import dump_json, escape, flag_text, time_text
from .bulk_insert import RowUpdate
from .runs import fence
from .starts import check_writer
from .transaction import Transaction, bulk_operation, operation

_RUNNING = Status.RUNNING.value
_HEAD = ("no", "id", "writer", "status")
_HEADS = (
    select(*(trajectory_table.c[name] for name in _HEAD))
    .order_by(trajectory_table.c.no)
    .with_for_update(key_share=True)
)
_BY_NAME = Lookup(_HEADS, trajectory_table.c.id)
_BY_NO = Lookup(_HEADS, trajectory_table.c.no)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a trajectory ended."""

    status: Status
    trajectory: str = ""
    """Id of the trajectory; ``TrajectoryWriter.finish`` adds it, and likewise ``tally`` and ``writer``."""
    reward: float = 0.0
    success: bool | None = None
    error: str = ""
    """The reason of a failure."""
    stop_reason: str = ""
    """The reason for which the episode was truncated."""
    reached: Limit | None = None
    """The limit of the horizon that truncated it."""
    ended_by: EndedBy = EndedBy.EPISODE
    final_observation_hash: str = ""
    final_observation: str | NewBlob | None = None
    """A long text becomes a blob."""
    final_images: Mapping[int, NewBlob] = field(default_factory=dict)
    """By the ``idx`` of their rows (``rows.by_idx``)."""
    extras: Mapping[str, Any] = field(default_factory=dict)
    """JSON values for the record, which stay as they are from here on."""
    tally: Tally | None = None
    """The counts and the digest of the turns that the player wrote; None to compute them from the stored rows."""
    writer: str = ""
    seal: str = field(init=False, default="")
    """The seal of the trajectory, by ``tally``; empty without one. Its player makes it, not the store's one writer."""

    def __post_init__(self) -> None:
        text = self.final_observation
        if isinstance(text, str) and len(text) > INLINE_TEXT:
            object.__setattr__(self, "final_observation", text_blob(text))
        if self.tally is not None:
            object.__setattr__(self, "seal", seal(self.columns(self.tally), self.tally.content))

    @property
    def blobs(self) -> Mapping[str, NewBlob]:
        """The content that the rows name, by hash."""
        return {
            one.hash: one for one in (*self.final_images.values(), self.final_observation) if isinstance(one, NewBlob)
        }

    def columns(self, tally: Tally) -> dict[str, Any]:
        """Return the columns of a trajectory with this end and ``tally``, by name: those that its seal covers."""
        final = self.final_observation
        return {
            "id": self.trajectory,
            "final_observation": final if isinstance(final, str) else None,
            "final_observation_blob": final.hash if isinstance(final, NewBlob) else None,
            "status": self.status.value,
            "reward": float(self.reward),
            "success": None if self.success is None else bool(self.success),
            "error": self.error,
            "stop_reason": self.stop_reason,
            "reached": self.reached.value if self.reached else "",
            "ended_by": self.ended_by.value,
            "final_observation_hash": self.final_observation_hash or None,
            "extras": dict(self.extras),
            "n_steps": tally.n_steps,
            "n_tokens": tally.n_tokens,
            "min_version": tally.min_version,
            "max_version": tally.max_version,
            "pruned_at": None,
        }

    def with_blobs(self, blobs: Mapping[str, NewBlob]) -> "Ending":
        """Return the record with other blobs."""
        final = self.final_observation
        return replace(
            self,
            final_images={idx: blobs[image.hash] for idx, image in self.final_images.items()},
            final_observation=blobs[final.hash] if isinstance(final, NewBlob) else final,
        )


@bulk_operation(Ending)
def finish_trajectory(tx: Transaction, ends: Sequence[Ending]) -> None:
    """End trajectories and count their steps, sampled tokens and versions. The same ending again changes nothing.

    Raises:
        Fenced: another writer began the trajectory.
        StoreConflict: it ended with another status before, or the store lacks a part of it.
    """
    heads = {head["id"]: head for head in _heads(tx.conn, _BY_NAME, {end.trajectory for end in ends})}
    _finish(tx, [(heads[end.trajectory], end) for end in ends if _still_runs(end, heads.get(end.trajectory))])


def _finish(tx: Transaction, ends: Sequence[tuple[dict[str, Any], Ending]]) -> None:
    """End running trajectories, each given by its head and its end."""
    if not ends:
        return
    # Another statement: it sees the turns that were committed while the heads were waited for.
    counts = {row[0]: (row[1], row[2]) for row in _COUNTS.run(tx.conn, [head["no"] for head, _ in ends])}
    images: list[dict[str, Any]] = []
    ended: list[tuple[Any, ...]] = []
    now = time_text(tx.now)
    for head, one in ends:
        tally = _tally(tx, head["no"], one, counts[head["no"]])
        if one.final_images:
            key = {"trajectory_no": head["no"], "step_idx": tally.n_steps}
            images += [dict(key, idx=idx, blob_hash=new.hash) for idx, new in one.final_images.items()]
        columns = one.columns(tally)
        sealed = one.seal if tally is one.tally else seal(columns, tally.content)
        ended.append((*_driver_values(columns), now, bytearray.fromhex(sealed), head["no"]))
    if images:
        tx.conn.execute(insert_once(tx.conn.dialect.name, step_image), images)
    _END.run(tx.conn, ended)


def _still_runs(end: Ending, head: Mapping[str, Any] | None) -> bool:
    """Return whether the trajectory still runs; False if it has ended in the same way."""
    if end.status is Status.RUNNING:
        raise ValueError("a trajectory cannot end as running")
    if head is None:
        raise NotFound(f"no trajectory {end.trajectory} in the store")
    check_writer(end.trajectory, head["writer"], end.writer)
    if head["status"] == _RUNNING:
        return True
    if head["status"] != end.status.value:
        raise StoreConflict(f"trajectory {end.trajectory} ended as {head['status']}; it cannot end as {end.status}")
    return False


def _driver_values(columns: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the driver's values of the columns of an end."""
    final = columns["final_observation"]
    return (
        *_plain_values(columns),
        None if (success := columns["success"]) is None else flag_text(success),
        escape(columns["error"]),
        escape(columns["stop_reason"]),
        None if final is None else escape(final),
        *(None if (name := columns[column]) is None else bytearray.fromhex(name) for column in _HASHES),
        dump_json(columns["extras"]) if columns["extras"] else "{}",
    )


def _check_whole(trajectory: str, what: str, written: int, stored: int) -> None:
    if written != stored:
        raise StoreConflict(
            f"`finish_trajectory` of {trajectory} failed: the store has {stored} {what}, but {written} were written; "
            "run the same command again to resume the run"
        )


_PLAIN = ("status", "reward", "ended_by", "reached", "n_steps", "n_tokens", "min_version", "max_version")
_plain_values = itemgetter(*_PLAIN)
_HASHES = ("final_observation_blob", "final_observation_hash")
_END = RowUpdate(
    trajectory_table,
    (*_PLAIN, "success", "error", "stop_reason", "final_observation", *_HASHES, "extras", "ended_at", "seal"),
)
"""Writes the columns of an end, in the order of ``_driver_values``, then its time and the seal."""


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


def _tally(tx: Transaction, no: int, end: Ending, rows: tuple[int, int]) -> Tally:
    """Return the tally of the end, whose counts are those of the stored ``rows`` of steps and partial turns, or else
    the tally of these rows: of an end without a tally, and of a driver's, which turns have followed since it was read.

    Raises:
        StoreConflict: the player's tally has other counts.
    """
    tally = end.tally
    if tally is None or (end.ended_by is EndedBy.DRIVER and (tally.n_steps, tally.n_partial) != rows):
        final = {idx: new.hash for idx, new in end.final_images.items()}
        return turn_rows(tx.conn, [no])[no].tally(tx.conn, tx.blobs, final)
    _check_whole(end.trajectory, "steps", tally.n_steps, rows[0])
    _check_whole(end.trajectory, "partial turns", tally.n_partial, rows[1])
    return tally


def _heads(conn: Connection, lookup: Lookup, names: Collection[Any]) -> Iterator[dict[str, Any]]:
    """Yield the columns ``_HEAD`` of trajectories, and lock their rows."""
    for row in lookup.run(conn, names):
        yield dict(zip(_HEAD, row, strict=True))


@operation
def cancel_trajectories(
    tx: Transaction,
    *,
    group: str,
    reason: str,
    status: Status = Status.CANCELLED,
    tallies: Mapping[str, Tally] | None = None,
    epoch: int | None = None,
) -> int:
    """End the running trajectories of a group whose worker died or timed out, and return how many those were.

    Args:
        tallies: those of trajectories that were read before (``queries.running_tallies``): the turns of the others are
            read in this transaction.
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
    return end_running(tx, list(tx.conn.execute(running).scalars()), reason, status, tallies)


def end_running(
    tx: Transaction,
    trajectories: Sequence[int],
    reason: str,
    status: Status,
    tallies: Mapping[str, Tally] | None = None,
) -> int:
    """End running ``trajectories`` (``no``) with the ``status`` of a failure, and return how many. Their steps stay."""
    heads = [head for head in _heads(tx.conn, _BY_NO, trajectories) if head["status"] == _RUNNING]
    ends = [
        Ending(status, head["id"], error=reason, ended_by=EndedBy.DRIVER, tally=(tallies or {}).get(head["id"]))
        for head in heads
    ]
    _finish(tx, list(zip(heads, ends, strict=True)))
    return len(heads)
