"""The hot path: steps and messages, written as they happen.

A policy of a few thousand parameters plays over a thousand turns per second, each a step, two messages and their
contents. The rows of many trajectories are therefore built first and inserted together: one ``executemany`` per table.
An existing row stays as it is, so a repeated append adds nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import isfinite
from typing import Any

from sqlalchemy import bindparam, select

from ...records import NO_VERSION, Message, Status, Step
from ..content.blobs import INLINE_BYTES, BlobStore, digest
from ..content.token_codec import encode
from ..errors import NotFound, StoreConflict
from ..schema import insert_once, message_image, step_image
from ..schema import message as message_table
from ..schema import step as step_table
from ..schema import trajectory as trajectory_table
from ..types import escape
from .transaction import Transaction, operation

_CHUNK = 500
_STATUS = select(trajectory_table.c.id, trajectory_table.c.status).where(
    trajectory_table.c.id.in_(bindparam("names", expanding=True))
)
_STEPS = select(step_table.c.idx).where(step_table.c.trajectory_id == bindparam("name"))
_MESSAGES = select(message_table.c.idx).where(message_table.c.trajectory_id == bindparam("name"))


@dataclass(slots=True)
class Append:
    """The arguments of one ``append``."""

    trajectory: str
    steps: Sequence[Step]
    messages: Sequence[Message]
    images: Mapping[str, bytes] | None = None


@dataclass(slots=True)
class _Rows:
    steps: list[dict[str, Any]] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    step_images: list[dict[str, Any]] = field(default_factory=list)
    message_images: list[dict[str, Any]] = field(default_factory=list)
    contents: dict[str, bytes] = field(default_factory=dict)


@operation
def append(
    tx: Transaction,
    *,
    trajectory: str,
    steps: Sequence[Step],
    messages: Sequence[Message],
    images: Mapping[str, bytes] | None = None,
) -> None:
    """Add steps and messages to a running trajectory; ``images`` maps the hash of each image they name to its bytes.

    Raises:
        NotFound: the trajectory is not in the store.
        StoreConflict: it has ended, and the store lacks one of these steps or messages.
        ValueError: a reward is not finite, or the key of an image is not its hash.
    """
    append_many(tx, [Append(trajectory, steps, messages, images)])


def append_many(tx: Transaction, appends: Sequence[Append]) -> None:
    """Run several appends in their order, all or none. Raises as ``append`` does."""
    _check_running(tx, appends)
    rows = _Rows()
    for one in appends:
        _add_messages(rows, one)
        _add_steps(rows, one, tx.now)
        for name, data in (one.images or {}).items():
            if name not in rows.contents:
                _check_name(name, data)
                rows.contents[name] = data
    tx.blobs.insert(tx.conn, rows.contents)
    dialect = tx.conn.dialect.name
    for table, values in (
        (message_table, rows.messages),
        (step_table, rows.steps),
        (message_image, rows.message_images),
        (step_image, rows.step_images),
    ):
        if values:
            tx.conn.execute(insert_once(dialect, table), values)


def write_images(blobs: BlobStore, images: Mapping[str, bytes]) -> None:
    """Write large images to the blob folder before the rows that refer to them.

    Raises:
        ValueError: the key of an image is not its hash.
        StoreFull: the disk is full.
    """
    for name, data in images.items():
        if len(data) > INLINE_BYTES:
            _check_name(name, data)
            blobs.write_file(name, data)


def _check_name(name: str, data: bytes) -> None:
    if digest(data) != name:
        raise ValueError(f"the key `{name}` of an image is not its hash")


def _check_running(tx: Transaction, appends: Sequence[Append]) -> None:
    names = sorted({one.trajectory for one in appends})
    status: dict[str, str] = {}
    for start in range(0, len(names), _CHUNK):
        status.update((row[0], row[1]) for row in tx.conn.execute(_STATUS, {"names": names[start : start + _CHUNK]}))
    for one in appends:
        stands = status.get(one.trajectory)
        if stands is None:
            raise NotFound(f"no trajectory {one.trajectory} in the store; call `start_trajectory` first")
        if stands != Status.RUNNING.value and not _is_stored(tx, one):
            raise StoreConflict(f"trajectory {one.trajectory} ended as {stands}, so no step can be appended")


def _is_stored(tx: Transaction, one: Append) -> bool:
    steps = set(tx.conn.execute(_STEPS, {"name": one.trajectory}).scalars())
    messages = set(tx.conn.execute(_MESSAGES, {"name": one.trajectory}).scalars())
    return steps.issuperset(s.index for s in one.steps) and messages.issuperset(m.index for m in one.messages)


def _add_messages(rows: _Rows, one: Append) -> None:
    for message in one.messages:
        data = encode(message)
        name = digest(data)
        rows.contents[name] = data
        sampled = [int(v) for v in message.versions if v != NO_VERSION]
        rows.messages.append(
            {
                "trajectory_id": one.trajectory,
                "idx": message.index,
                "parent_idx": message.parent,
                "role": message.role.value,
                "source": message.source.value,
                "n_tokens": len(message.tokens),
                "n_sampled": int(sum(message.mask)),
                "min_version": min(sampled, default=None),
                "max_version": max(sampled, default=None),
                "tokens_blob": name,
            }
        )
        for idx, image in enumerate(message.images):
            rows.message_images.append(
                {
                    "trajectory_id": one.trajectory,
                    "message_idx": message.index,
                    "idx": idx,
                    "blob_hash": image,
                }
            )


def _add_steps(rows: _Rows, one: Append, now: datetime) -> None:
    for step in one.steps:
        if not isfinite(step.reward):
            raise ValueError(f"trajectory {one.trajectory}, step {step.index}: the reward is {step.reward}")
        data = escape(step.observation).encode()
        name = digest(data)
        rows.contents[name] = data
        rows.steps.append(
            {
                "trajectory_id": one.trajectory,
                "idx": step.index,
                "message_idx": step.message,
                "observation_blob": name,
                "observation_hash": step.observation_hash,
                "action": step.action,
                "reward": float(step.reward),
                "reward_parts": dict(step.reward_parts) or None,
                "terminated": bool(step.terminated),
                "truncated": bool(step.truncated),
                "action_valid": bool(step.action_valid),
                "state_key": step.state_key,
                "model_ms": step.model_ms,
                "env_ms": step.env_ms,
                "created_at": step.created_at or now,
            }
        )
        for idx, image in enumerate(step.images):
            rows.step_images.append(
                {"trajectory_id": one.trajectory, "step_idx": step.index, "idx": idx, "blob_hash": image}
            )
