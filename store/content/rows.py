"""The rows of turns, built by the process that played them, with messages encoded.

A row is a tuple of the values of ``STEP``, ``PARTIAL_TURN`` or an image's columns; the transaction adds
``trajectory_no``. The values are ready for the database's driver (texts escaped, JSON, flags and times as text, bytes
as ``bytearray``): the driver inserts many rows in one call, and a conversion per value would take longer than the
insert. ``sqlite3`` searches an adapter for each ``bytes`` and each None: a row of ``STEP`` without long content is
therefore shorter.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from operator import itemgetter
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from ...records import NO_VERSION, Message, Step
from ..schema import SCREENSHOT
from ..schema.types import dump_json, escape, flag_text, time_text, utc_now
from .blobs import MESSAGES, PNG, TEXT, NewBlob, digest
from .digests import content_digest, partial_turn_digest, step_digest
from .message_codec import encode

T = TypeVar("T")
INLINE_TEXT = 2048
"""Characters of an observation above which it is a blob."""
INLINE_MESSAGES_BYTES = 64 * 1024
"""Bytes of a turn's messages above which they are a blob."""

STEP = (
    *("idx", "agent", "cut_by", "observation", "observation_hash", "action", "reward", "reward_parts", "terminated"),
    *("truncated", "failed", "action_valid", "state_key", "model_ms", "env_ms", "messages", "digest", "created_at"),
)
STEP_BLOBS = ("observation_blob", "messages_blob")
"""The columns that follow those of ``STEP`` in the row of a step with long content."""
_FLAGS = ("terminated", "truncated", "failed", "action_valid")
PARTIAL_TURN = ("idx", "messages", "messages_blob", "digest")
STEP_IMAGE = ("step_idx", "idx", "blob_hash")
MESSAGE_IMAGE = ("message_idx", "idx", "blob_hash")
"""The columns of a row, in its order."""
_STEP_VALUES, _PARTIAL_VALUES = itemgetter(*STEP), itemgetter(*PARTIAL_TURN)
_STEP_BLOB_VALUES = itemgetter(*STEP_BLOBS)


@dataclass(slots=True)
class Rows:
    """The rows of the turns of one trajectory, and the blobs that they name."""

    steps: list[tuple[Any, ...]] = field(default_factory=list)
    partial_turns: list[tuple[Any, ...]] = field(default_factory=list)
    step_images: list[tuple[Any, ...]] = field(default_factory=list)
    message_images: list[tuple[Any, ...]] = field(default_factory=list)
    blobs: dict[str, NewBlob] = field(default_factory=dict)
    n_tokens: int = 0
    """Tokens that a policy sampled."""
    versions: set[int] = field(default_factory=set)
    """The policy versions that sampled them."""


def rows_of(steps: Sequence[Step], messages: Sequence[Message], images: Mapping[str, bytes] | None = None) -> Rows:
    """Return the rows of steps and messages; ``images`` maps the hash of each image they name to its bytes (PNG).

    The messages are in the order of their indices. Those after the last step's message are a partial turn.

    Raises:
        ValueError: a reward is not finite, a column of tokens does not fit, the key of an image is not its hash, or the
            message of a step is missing.
    """
    rows = Rows()
    for step, added in _turns(steps, messages):
        if step is None:
            _add_partial_turn(rows, added)
        else:
            _add_step(rows, step, added)
    for name, data in (images or {}).items():
        if digest(data) != name:
            raise ValueError(f"the key `{name}` of an image is not its hash")
        rows.blobs[name] = NewBlob.of(data, PNG)
    return rows


def sampled_of(messages: Sequence[Message]) -> tuple[int, set[int]]:
    """Return how many tokens of ``messages`` a policy sampled, and the versions that did."""
    count, versions = 0, set[int]()
    for message in messages:
        count += int(message.mask.sum() if isinstance(message.mask, np.ndarray) else sum(message.mask))
        versions.update(map(int, set(message.versions)))
    return count, versions - {NO_VERSION}


def by_idx(images: Sequence[T], screenshot: T | None) -> dict[int, T]:
    """Return the images of an observation, and the screenshot of it if there is one, by the ``idx`` of their rows."""
    return ({SCREENSHOT: screenshot} if screenshot else {}) | dict(enumerate(images))


def text_columns(blobs: dict[str, NewBlob], name: str, text: str) -> dict[str, Any]:
    """Return the columns ``name`` and ``name_blob`` of a text; a long text is added to ``blobs``."""
    if len(text) <= INLINE_TEXT:
        return {name: text, f"{name}_blob": None}
    new = text_blob(text)
    blobs[new.hash] = new
    return {name: None, f"{name}_blob": new.hash}


def text_blob(text: str) -> NewBlob:
    """Return the blob of a text."""
    return NewBlob.of(escape(text).encode(), TEXT)


def _turns(steps: Sequence[Step], messages: Sequence[Message]) -> Iterator[tuple[Step | None, list[Message]]]:
    """Yield each step with its messages: those since the step before, up to ``step.message``. The messages that are
    left are a partial turn, without a step.
    """
    at = 0
    for step in steps:
        first = at
        if step.message is not None:
            while at < len(messages) and messages[at].index != step.message:
                at += 1
            if at == len(messages):
                raise ValueError(f"step {step.index}: its message {step.message} is not among those of the turn")
            at += 1
        yield step, list(messages[first:at])
    if at < len(messages):
        yield None, list(messages[at:])


def _message_columns(rows: Rows, messages: Sequence[Message]) -> dict[str, Any]:
    """Return the columns ``messages`` and ``messages_blob``; add the images and the sampled tokens to ``rows``."""
    if not messages:
        return {"messages": None, "messages_blob": None}
    for message in messages:
        rows.message_images += [
            (message.index, idx, bytearray.fromhex(name)) for idx, name in enumerate(message.images)
        ]
    n_tokens, versions = sampled_of(messages)
    rows.n_tokens += n_tokens
    rows.versions |= versions
    data = encode(messages)
    if len(data) <= INLINE_MESSAGES_BYTES:
        return {"messages": data, "messages_blob": None}
    new = NewBlob.of(data, MESSAGES)
    rows.blobs[new.hash] = new
    return {"messages": None, "messages_blob": new.hash}


def _add_partial_turn(rows: Rows, messages: Sequence[Message]) -> None:
    row = {"idx": messages[0].index, **_message_columns(rows, messages)}
    encoded = {"messages_blob": _bytes(row["messages_blob"]), "digest": bytearray.fromhex(partial_turn_digest(row))}
    rows.partial_turns.append(_PARTIAL_VALUES(row | encoded))


def _add_step(rows: Rows, step: Step, messages: Sequence[Message]) -> None:
    if not isfinite(step.reward):
        raise ValueError(f"step {step.index}: the reward is {step.reward}")
    images: list[dict[str, Any]] = [
        {"step_idx": step.index, "idx": idx, "blob_hash": name}
        for idx, name in by_idx(step.images, step.screenshot).items()
    ]
    row = {
        "idx": step.index,
        "agent": step.agent,
        "cut_by": step.cut_by.value if step.cut_by else "",
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
        "model_ms": _single(step.model_ms),
        "env_ms": _single(step.env_ms),
        **_message_columns(rows, messages),
        "created_at": step.created_at or utc_now(),
    }
    text, parts, packed = row["observation"], row["reward_parts"], row["messages"]
    encoded = {
        "observation": None if text is None else escape(text),
        "observation_hash": bytearray.fromhex(step.observation_hash),
        "action": escape(step.action),
        "state_key": escape(step.state_key),
        "reward_parts": None if parts is None else dump_json(parts),
        "messages": None if packed is None else bytearray(packed),
        **{name: flag_text(row[name]) for name in _FLAGS},
        "digest": bytearray.fromhex(step_digest(row, images)),
        "created_at": time_text(row["created_at"]),
    }
    long = _STEP_BLOB_VALUES(row)
    rows.steps.append(_STEP_VALUES(row | encoded) + (tuple(map(_bytes, long)) if any(long) else ()))
    rows.step_images += [(step.index, image["idx"], bytearray.fromhex(image["blob_hash"])) for image in images]


def _single(value: float) -> float:
    """Return a number with the six digits that four bytes keep in every database."""
    return float(f"{value:.6g}")


def _bytes(digest: str | None) -> bytearray | None:
    return None if digest is None else bytearray.fromhex(digest)


_STEP_KEY, _STEP_DIGEST = STEP.index("idx"), STEP.index("digest")
_PARTIAL_KEY, _PARTIAL_DIGEST = PARTIAL_TURN.index("idx"), PARTIAL_TURN.index("digest")


@dataclass(frozen=True, slots=True)
class Tally:
    """The counts and the content digest of the turns of one trajectory."""

    n_steps: int
    n_partial: int
    """Partial turns: those that ended before their action."""
    n_tokens: int
    """Tokens that a policy sampled."""
    min_version: int | None
    """The lowest version that sampled a token; None without tokens. Likewise the highest."""
    max_version: int | None
    content: str
    """The content digest (``digests.content_digest``)."""


@dataclass(slots=True)
class Written:
    """Counts the rows of one trajectory."""

    steps: dict[int, str] = field(default_factory=dict)
    """The digests of the steps, by ``idx``; likewise of the partial turns."""
    partial: dict[int, str] = field(default_factory=dict)
    message_images: list[dict[str, Any]] = field(default_factory=list)
    n_tokens: int = 0
    versions: set[int] = field(default_factory=set)

    def add(self, rows: Rows) -> None:
        """Add the rows of the next turns."""
        self.steps.update((row[_STEP_KEY], row[_STEP_DIGEST].hex()) for row in rows.steps)
        self.partial.update((row[_PARTIAL_KEY], row[_PARTIAL_DIGEST].hex()) for row in rows.partial_turns)
        for *key, name in rows.message_images:
            self.message_images.append(dict(zip(MESSAGE_IMAGE, (*key, name.hex()), strict=True)))
        self.n_tokens += rows.n_tokens
        self.versions |= rows.versions

    def tally(self, final_images: Mapping[int, str] = MappingProxyType({})) -> Tally:
        """Return the counts and the content digest; ``final_images`` are the hashes of the end's images by ``idx``."""
        return Tally(
            len(self.steps),
            len(self.partial),
            self.n_tokens,
            min(self.versions, default=None),
            max(self.versions, default=None),
            content_digest(self.steps, self.partial, self.message_images, final_images),
        )
