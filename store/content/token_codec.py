"""The tokens of a message as bytes: the last part of a message in ``message_codec``. Little-endian; a varint has seven
bits per byte, the lowest first, and the highest bit of every byte but the last is set.

1. number of tokens (varint), bytes per token id (u8: 2 or 4), number of runs (varint);
2. the token ids;
3. the runs of equal mask and policy version: twice the length, plus the mask (varint), version + 1 (varint);
4. the behavior log-probabilities (f32) of the tokens with mask 1, in order.

A token that the policy did not sample has mask 0 and no log-probability (NaN).
"""

import struct
from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...records import Message

_MASKED = "a mask is 0 or 1, and a token with mask 0 has the log-probability NaN"
_SHORT = 64
"""Tokens up to which a message is encoded without numpy."""
_VARINT_BYTES_MAX = 5
"""Bytes of a varint of 32 bits."""


class Tokens(NamedTuple):
    """The four token columns of a message, one value per token."""

    tokens: NDArray[np.int32]
    mask: NDArray[np.uint8]
    logprobs: NDArray[np.float32]
    versions: NDArray[np.int32]


def encode(message: Message) -> bytes:
    """Return the four token columns of ``message``.

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
    narrow = int(ids.min()) >= 0 and int(ids.max()) < 2**16
    runs = list(_runs(mask, versions))
    return b"".join(
        (
            _header(count, narrow, len(runs)),
            ids.astype("<u2" if narrow else "<i4").tobytes(),
            _packed(message.index, runs),
            logprobs[sampled].astype("<f4").tobytes(),
        )
    )


def _encode_short(message: Message) -> bytes:
    """Return what ``encode`` returns. For a few tokens, numpy's calls would take longer than the work."""
    tokens, count = message.tokens, len(message.tokens)
    runs = [
        (len(list(run)), int(bit), int(version))
        for (version, bit), run in groupby(zip(message.versions, message.mask, strict=True))
    ]
    sampled = [value for value, bit in zip(message.logprobs, message.mask, strict=True) if bit]
    context = [value for value, bit in zip(message.logprobs, message.mask, strict=True) if not bit]
    if any(bit not in (0, 1) for _, bit, _ in runs) or not all(value != value for value in context):
        raise ValueError(f"message {message.index}: {_MASKED}")
    narrow = not count or (min(tokens) >= 0 and max(tokens) < 2**16)
    try:
        return (
            _header(count, narrow, len(runs))
            + struct.pack(f"<{count}{'H' if narrow else 'i'}", *tokens)
            + _packed(message.index, runs)
            + struct.pack(f"<{len(sampled)}f", *sampled)
        )
    except (struct.error, OverflowError) as error:
        raise ValueError(f"message {message.index}: a token value does not fit ({error})") from error


def decode(data: bytes, at: int) -> tuple[Tokens, int]:
    """Return the columns that ``encode`` received and the position after them. The arrays are read-only: a component
    that changed them would train on other tokens than the store has.

    Raises:
        ValueError, IndexError: the bytes at position ``at`` were altered.
    """
    count, at = read_varint(data, at)
    width, at = data[at], at + 1
    n_runs, at = read_varint(data, at)
    if width not in (2, 4):
        raise ValueError(f"token ids have {width} bytes")
    if count * width + 2 * n_runs > len(data) - at:
        raise ValueError("the tokens are cut off")
    ids = np.frombuffer(data, "<u2" if width == 2 else "<i4", count, at).astype(np.int32)
    at += count * width
    lengths, bits, runs_versions = [], [], []
    for _ in range(n_runs):
        length, at = read_varint(data, at)
        version, at = read_varint(data, at)
        lengths.append(length >> 1)
        bits.append(length & 1)
        runs_versions.append(version - 1)
    if sum(lengths) != count:
        raise ValueError("the runs have another length than the tokens")
    mask = np.repeat(np.array(bits, np.uint8), lengths)
    versions = np.repeat(np.array(runs_versions, np.int64), lengths).astype(np.int32)
    sampled = mask == 1
    logprobs = np.full(count, np.nan, np.float32)
    n_sampled = int(sampled.sum())
    logprobs[sampled] = np.frombuffer(data, "<f4", n_sampled, at)
    for column in (ids, mask, logprobs, versions):
        column.flags.writeable = False
    return Tokens(ids, mask, logprobs, versions), at + 4 * n_sampled


def varint(value: int) -> bytes:
    """Return a number from 0 on, below 2³², as a varint."""
    if 0 <= value < 0x80:
        return _ONE_BYTE[value]
    if not 0 <= value < 2**32:
        raise ValueError(f"{value} does not fit 32 bits")
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the varint at position ``at`` and the position after it. Raises ValueError, IndexError."""
    value = 0
    for place in range(_VARINT_BYTES_MAX):
        byte = data[at + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, at + place + 1
    raise ValueError("a number has more than 32 bits")


def _header(count: int, narrow: bool, n_runs: int) -> bytes:
    return varint(count) + (b"\x02" if narrow else b"\x04") + varint(n_runs)


def _packed(index: int, runs: list[tuple[int, int, int]]) -> bytes:
    """Return runs, each of a length, a mask and a version, as bytes."""
    if not all(-1 <= version < 2**31 for _, _, version in runs):
        raise ValueError(f"message {index}: a token value does not fit: a version is below -1 or above 31 bits")
    return b"".join(varint(2 * length + bit) + varint(version + 1) for length, bit, version in runs)


def _runs(mask: NDArray[np.uint8], versions: NDArray[np.int32]) -> Iterator[tuple[int, int, int]]:
    """Yield the runs of equal mask and version: the length, the mask and the version of each."""
    starts = np.flatnonzero(np.r_[True, (mask[1:] != mask[:-1]) | (versions[1:] != versions[:-1])])
    lengths = np.diff(np.r_[starts, len(mask)])
    yield from zip(lengths.tolist(), mask[starts].tolist(), versions[starts].tolist(), strict=True)


_ONE_BYTE = [bytes([value]) for value in range(0x80)]
