"""The rows of turns, built by the process that played them: tokens encoded, long content staged in the blob folder.

A row is a tuple of the values of ``STEP``, ``MESSAGE`` or an image's columns; the transaction adds ``trajectory_no``.
The values are ready for the database's driver (texts escaped, hashes as bytes, JSON as text): the driver inserts many
rows in one call, and a conversion per value would take longer than the insert.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from operator import itemgetter
from typing import Any

from ...records import NO_VERSION, Message, Step
from ..schema.types import dump_json, escape, utc_now
from .blobs import PNG, TEXT, TOKENS, BlobStore, NewBlob, digest
from .digests import message_digest, step_digest
from .token_codec import encode

INLINE_TEXT = 2048
"""Characters of an observation above which it is a blob."""
INLINE_TOKENS_BYTES = 64 * 1024
"""Bytes of a message's tokens above which they are a blob."""

STEP = (
    *("idx", "agent", "message_idx", "observation", "observation_blob", "observation_hash", "action", "reward"),
    *("reward_parts", "terminated", "truncated", "failed", "action_valid", "state_key", "model_ms", "env_ms", "digest"),
    "created_at",
)
MESSAGE = (
    *("idx", "parent_idx", "agent", "role", "source", "n_tokens", "n_sampled", "min_version", "max_version"),
    *("tokens", "tokens_blob", "digest"),
)
STEP_IMAGE = ("step_idx", "idx", "blob_hash")
MESSAGE_IMAGE = ("message_idx", "idx", "blob_hash")
"""The columns of a row, in its order."""
_STEP_VALUES, _MESSAGE_VALUES = itemgetter(*STEP), itemgetter(*MESSAGE)


@dataclass(slots=True)
class Rows:
    """The rows of the turns of one trajectory, and the blobs that they name."""

    steps: list[tuple[Any, ...]] = field(default_factory=list)
    messages: list[tuple[Any, ...]] = field(default_factory=list)
    step_images: list[tuple[Any, ...]] = field(default_factory=list)
    message_images: list[tuple[Any, ...]] = field(default_factory=list)
    blobs: dict[str, NewBlob] = field(default_factory=dict)
    step_digests: dict[int, str] = field(default_factory=dict)
    """The digests of the steps, by ``idx``; likewise of the messages."""
    message_digests: dict[int, str] = field(default_factory=dict)

    def stage(self, store: BlobStore) -> None:
        """Write the large blobs to the folder. Raises StoreFull."""
        self.blobs = {name: store.stage(new) for name, new in self.blobs.items()}


def rows_of(steps: Sequence[Step], messages: Sequence[Message], images: Mapping[str, bytes] | None = None) -> Rows:
    """Return the rows of steps and messages; ``images`` maps the hash of each image they name to its bytes (PNG).

    Raises:
        ValueError: a reward is not finite, a column of tokens does not fit, or the key of an image is not its hash.
    """
    rows = Rows()
    for message in messages:
        _add_message(rows, message)
    for step in steps:
        _add_step(rows, step)
    for name, data in (images or {}).items():
        if digest(data) != name:
            raise ValueError(f"the key `{name}` of an image is not its hash")
        rows.blobs[name] = NewBlob.of(data, PNG)
    return rows


def text_columns(blobs: dict[str, NewBlob], name: str, text: str) -> dict[str, Any]:
    """Return the columns ``name`` and ``name_blob`` of a text; a long text is added to ``blobs``."""
    if len(text) <= INLINE_TEXT:
        return {name: text, f"{name}_blob": None}
    new = NewBlob.of(escape(text).encode(), TEXT)
    blobs[new.hash] = new
    return {name: None, f"{name}_blob": new.hash}


def _add_message(rows: Rows, message: Message) -> None:
    data: bytes | None = encode(message)
    blob = None
    if data is not None and len(data) > INLINE_TOKENS_BYTES:
        new = NewBlob.of(data, TOKENS)
        rows.blobs[new.hash] = new
        data, blob = None, new.hash
    sampled = [int(version) for version in message.versions if version != NO_VERSION]
    images: list[dict[str, Any]] = [
        {"message_idx": message.index, "idx": idx, "blob_hash": name} for idx, name in enumerate(message.images)
    ]
    row = {
        "idx": message.index,
        "parent_idx": message.parent,
        "agent": message.agent,
        "role": message.role.value,
        "source": message.source.value,
        "n_tokens": len(message.tokens),
        "n_sampled": int(sum(message.mask)),
        "min_version": min(sampled, default=None),
        "max_version": max(sampled, default=None),
        "tokens": data,
        "tokens_blob": blob,
    }
    digest = rows.message_digests[message.index] = message_digest(row, images)
    encoded = {"tokens_blob": _bytes(blob), "digest": bytes.fromhex(digest)}
    rows.messages.append(_MESSAGE_VALUES(row | encoded))
    rows.message_images += [(message.index, image["idx"], _bytes(image["blob_hash"])) for image in images]


def _add_step(rows: Rows, step: Step) -> None:
    if not isfinite(step.reward):
        raise ValueError(f"step {step.index}: the reward is {step.reward}")
    images: list[dict[str, Any]] = [
        {"step_idx": step.index, "idx": idx, "blob_hash": name} for idx, name in enumerate(step.images)
    ]
    row = {
        "idx": step.index,
        "agent": step.agent,
        "message_idx": step.message,
        **text_columns(rows.blobs, "observation", step.observation),
        "observation_hash": step.observation_hash,
        "action": step.action,
        "reward": float(step.reward),
        "reward_parts": dict(step.reward_parts) or None,
        "terminated": bool(step.terminated),
        "truncated": bool(step.truncated),
        "failed": bool(step.failed),
        "action_valid": bool(step.action_valid),
        "state_key": step.state_key,
        "model_ms": float(step.model_ms),
        "env_ms": float(step.env_ms),
        "created_at": step.created_at or utc_now(),
    }
    digest = rows.step_digests[step.index] = step_digest(row, images)
    text, parts = row["observation"], row["reward_parts"]
    encoded = {
        "observation": None if text is None else escape(text),
        "observation_blob": _bytes(row["observation_blob"]),
        "observation_hash": bytes.fromhex(step.observation_hash),
        "action": escape(step.action),
        "state_key": escape(step.state_key),
        "reward_parts": None if parts is None else dump_json(parts),
        "digest": bytes.fromhex(digest),
    }
    rows.steps.append(_STEP_VALUES(row | encoded))
    rows.step_images += [(step.index, image["idx"], _bytes(image["blob_hash"])) for image in images]


def _bytes(digest: str | None) -> bytes | None:
    return None if digest is None else bytes.fromhex(digest)
