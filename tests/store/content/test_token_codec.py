"""Token columns round-trip bit for bit, from records in a documented format."""

import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from turnwise.records import NO_VERSION, Message, Role, Source
from turnwise.store.content.token_codec import RECORD, decode, encode

TOKEN = st.tuples(
    st.integers(0, 2**31 - 1),
    st.integers(0, 1),
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.integers(NO_VERSION, 2**31 - 1),
)


def message(rows: list[tuple[int, int, float, int]]) -> Message:
    tokens, mask, logprobs, versions = zip(*rows, strict=True) if rows else ((), (), (), ())
    return Message(0, None, Role.ASSISTANT, Source.POLICY, tokens, mask, logprobs, versions)


@given(st.lists(TOKEN, max_size=200))
def test_encoding_round_trips(rows: list[tuple[int, int, float, int]]) -> None:
    data = encode(message(rows))
    assert len(data) == 13 * len(rows)
    assert list(zip(*decode(data), strict=True)) == rows


@pytest.mark.parametrize("count", [1, 64, 65, 5000])
def test_short_and_long_messages_have_the_same_bytes(count: int) -> None:
    rows = [(i, i % 2, -i / 8, i - 1) for i in range(count)]
    plain = b"".join(struct.pack("<ifiB", token, logprob, version, mask) for token, mask, logprob, version in rows)
    assert encode(message(rows)) == plain
    assert np.frombuffer(plain, RECORD)["id"].tolist() == list(range(count))


def test_a_missing_log_probability_stays_missing() -> None:
    columns = decode(encode(message([(5, 0, math.nan, NO_VERSION)])))
    assert math.isnan(columns.logprobs[0])
    assert columns.versions == [NO_VERSION]


@pytest.mark.parametrize("count", [2, 100])
def test_values_out_of_range_are_rejected(count: int) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        encode(message([(2**31, 1, 0.0, 0)] * count))


def test_columns_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match="2 tokens, 1 mask"):
        encode(Message(0, None, Role.USER, Source.POLICY, [1, 2], [0], [0.0, 0.0], [0, 0]))


def test_torn_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="not a multiple of"):
        decode(b"123")
