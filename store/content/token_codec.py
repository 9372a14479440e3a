"""The tokens of a message as bytes: fixed little-endian records that any program can read.

One record is 13 bytes: token id (int32), behavior log-probability (float32), policy version (int32), mask (uint8). A
token that the policy did not sample has log-probability NaN, version -1 and mask 0.
"""

import struct
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...records import Message

RECORD = np.dtype([("id", "<i4"), ("logprob", "<f4"), ("version", "<i4"), ("mask", "u1")])
_SHORT = 64
_FORMATS = [struct.Struct("<" + "ifiB" * n) for n in range(_SHORT + 1)]


class Tokens(NamedTuple):
    """The four token columns of a message: read-only views of one record array."""

    tokens: NDArray[np.int32]
    mask: NDArray[np.uint8]
    logprobs: NDArray[np.float32]
    versions: NDArray[np.int32]


def encode(message: Message) -> bytes:
    """Return the four token columns of ``message`` as records.

    Raises:
        ValueError: the columns differ in length, or a value does not fit its column.
    """
    count = len(message.tokens)
    if not count == len(message.mask) == len(message.logprobs) == len(message.versions):
        raise ValueError(
            f"message {message.index}: {count} tokens, {len(message.mask)} mask entries, "
            f"{len(message.logprobs)} log-probabilities, {len(message.versions)} versions; "
            "the columns must have equal lengths"
        )
    if count <= _SHORT:
        columns = zip(message.tokens, message.logprobs, message.versions, message.mask, strict=True)
        try:
            return _FORMATS[count].pack(*chain.from_iterable(columns))
        except struct.error as error:
            raise ValueError(f"message {message.index}: a token value does not fit ({error})") from error
    records = np.empty(count, RECORD)
    try:
        records["id"] = message.tokens
        records["logprob"] = message.logprobs
        records["version"] = message.versions
        records["mask"] = message.mask
    except OverflowError as error:
        raise ValueError(f"message {message.index}: a token value does not fit ({error})") from error
    return records.tobytes()


def decode(data: bytes) -> Tokens:
    """Return the columns that ``encode`` received.

    Raises:
        ValueError: the length of ``data`` is not a multiple of 13 bytes.
    """
    if len(data) % RECORD.itemsize:
        raise ValueError(f"{len(data)} bytes are not a multiple of the {RECORD.itemsize} bytes of a token record")
    records = np.frombuffer(data, RECORD)
    return Tokens(records["id"], records["mask"], records["logprob"], records["version"])
