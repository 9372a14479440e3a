"""The tokens of a message as bytes, in a format with a number, so that any program can read them, at any later time.

The first byte is the format: 1, or 2 if the rest is compressed by zlib. The rest, little-endian:

1. number of tokens (u32), number of runs (u32), bytes per token id (u8: 2 or 4);
2. the token ids;
3. the runs of equal mask and policy version: length (u32), version (i32), mask (u8) each;
4. the behavior log-probabilities (f32) of the tokens with mask 1, in order.

A token that the policy did not sample has mask 0 and no log-probability (NaN).
"""

import struct
import zlib
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...records import Message
from .compression import inflate

PLAIN, COMPRESSED = 1, 2
"""The formats, in the first byte."""
RUN = np.dtype([("length", "<u4"), ("version", "<i4"), ("mask", "u1")])
_HEADER = struct.Struct("<IIB")
_RUN = struct.Struct("<IiB")
_MASKED = "a mask is 0 or 1, and a token with mask 0 has the log-probability NaN"
_SHORT = 64
"""Tokens up to which a message is encoded without numpy."""
_COMPRESS_ABOVE = 128
"""Bytes above which compression is tried."""
_LEVEL = 1


class Tokens(NamedTuple):
    """The four token columns of a message, one value per token."""

    tokens: NDArray[np.int32]
    mask: NDArray[np.uint8]
    logprobs: NDArray[np.float32]
    versions: NDArray[np.int32]


def encode(message: Message) -> bytes:
    """Return the four token columns of ``message`` in format 1 or 2.

    Raises:
        ValueError: the columns differ in length, a value does not fit its column, or a token with mask 0 has a
            log-probability.
    """
    count = len(message.tokens)
    if not count == len(message.mask) == len(message.logprobs) == len(message.versions):
        raise ValueError(
            f"message {message.index}: {count} tokens, {len(message.mask)} mask entries, "
            f"{len(message.logprobs)} log-probabilities, {len(message.versions)} versions; "
            "the columns must have equal lengths"
        )
    if count <= _SHORT:
        return _encode_short(message)
    try:
        ids = np.asarray(message.tokens, np.int32)
        mask = np.asarray(message.mask, np.uint8)
        logprobs = np.asarray(message.logprobs, np.float32)
        versions = np.asarray(message.versions, np.int32)
    except (OverflowError, ValueError, TypeError) as error:
        raise ValueError(f"message {message.index}: a token value does not fit ({error})") from error
    sampled = mask == 1
    if (mask > 1).any() or not np.isnan(logprobs[~sampled]).all():
        raise ValueError(f"message {message.index}: {_MASKED}")
    narrow = count == 0 or (int(ids.min()) >= 0 and int(ids.max()) < 2**16)
    runs = _runs(mask, versions)
    body = b"".join(
        (
            _HEADER.pack(count, len(runs), 2 if narrow else 4),
            ids.astype("<u2" if narrow else "<i4").tobytes(),
            runs.tobytes(),
            logprobs[sampled].astype("<f4").tobytes(),
        )
    )
    return _stored(body)


def _stored(body: bytes) -> bytes:
    if len(body) > _COMPRESS_ABOVE and len(smaller := zlib.compress(body, _LEVEL)) < len(body):
        return bytes([COMPRESSED]) + smaller
    return bytes([PLAIN]) + body


def _encode_short(message: Message) -> bytes:
    """Return what ``encode`` returns. For a few tokens, numpy's calls would take longer than the work."""
    tokens, count = message.tokens, len(message.tokens)
    runs = [
        (version, bit, len(list(run)))
        for (version, bit), run in groupby(zip(message.versions, message.mask, strict=True))
    ]
    sampled = [value for value, bit in zip(message.logprobs, message.mask, strict=True) if bit]
    context = [value for value, bit in zip(message.logprobs, message.mask, strict=True) if not bit]
    if any(bit not in (0, 1) for _, bit, _ in runs) or not all(value != value for value in context):
        raise ValueError(f"message {message.index}: {_MASKED}")
    narrow = not count or (min(tokens) >= 0 and max(tokens) < 2**16)
    try:
        return _stored(
            _HEADER.pack(count, len(runs), 2 if narrow else 4)
            + struct.pack(f"<{count}{'H' if narrow else 'i'}", *tokens)
            + b"".join(_RUN.pack(length, version, bit) for version, bit, length in runs)
            + struct.pack(f"<{len(sampled)}f", *sampled)
        )
    except (struct.error, OverflowError) as error:
        raise ValueError(f"message {message.index}: a token value does not fit ({error})") from error


def decode(data: bytes) -> Tokens:
    """Return the columns that ``encode`` received, read-only: a component that changed them would train on other tokens
    than the store has.

    Raises:
        ValueError: ``data`` has an unknown format, or was altered.
    """
    try:
        body = _body(data)
        count, n_runs, width = _HEADER.unpack_from(body)
        at = _HEADER.size
        ids = np.frombuffer(body, {2: "<u2", 4: "<i4"}[width], count, at).astype(np.int32)
        at += count * width
        runs = np.frombuffer(body, RUN, n_runs, at)
        at += runs.nbytes
        if int(runs["length"].sum(dtype=np.int64)) != count:
            raise ValueError("the runs have another length than the header says")
        mask = np.repeat(runs["mask"], runs["length"])
        versions = np.repeat(runs["version"], runs["length"]).astype(np.int32)
        sampled = mask == 1
        if (mask > 1).any() or len(body) != at + 4 * int(sampled.sum()):
            raise ValueError("the log-probabilities have another length than the runs say")
        logprobs = np.full(count, np.nan, np.float32)
        logprobs[sampled] = np.frombuffer(body, "<f4", -1, at)
    except (struct.error, KeyError, ValueError, IndexError) as error:
        raise ValueError(f"{len(data)} bytes are not tokens in a known format: {error}") from error
    for column in (ids, mask, logprobs, versions):
        column.flags.writeable = False
    return Tokens(ids, mask, logprobs, versions)


def _body(data: bytes) -> bytes:
    if data[:1] == bytes([PLAIN]):
        return data[1:]
    if data[:1] == bytes([COMPRESSED]):
        return inflate(data[1:])
    raise ValueError(f"format {data[:1].hex() or 'missing'}; this turnwise reads 01 and 02")


def _runs(mask: NDArray[np.uint8], versions: NDArray[np.int32]) -> NDArray[np.void]:
    """Return the runs of equal mask and version, as records of ``RUN``."""
    if not len(mask):
        return np.empty(0, RUN)
    starts = np.flatnonzero(np.r_[True, (mask[1:] != mask[:-1]) | (versions[1:] != versions[:-1])])
    runs = np.empty(len(starts), RUN)
    runs["length"] = np.diff(np.r_[starts, len(mask)])
    runs["version"], runs["mask"] = versions[starts], mask[starts]
    return runs
