"""Token columns round-trip bit for bit, from records in a documented format."""

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from turnwise.records import NO_VERSION, Message, Role, Source
from turnwise.store.content.token_codec import decode, encode, read_varint, varint

IDS = st.integers(0, 2**16 - 1) | st.integers(0, 2**31 - 1)
SAMPLED = st.tuples(
    IDS, st.just(1), st.floats(width=32, allow_nan=False, allow_infinity=False), st.integers(NO_VERSION, 2**31 - 1)
)
CONTEXT = st.tuples(IDS, st.just(0), st.just(math.nan), st.just(NO_VERSION))


def message(rows: list[tuple[int, int, float, int]]) -> Message:
    tokens, mask, logprobs, versions = zip(*rows, strict=True) if rows else ((), (), (), ())
    return Message(0, None, Role.ASSISTANT, Source.POLICY, tokens, mask, logprobs, versions)


@given(st.lists(SAMPLED | CONTEXT, max_size=200), st.binary(max_size=4))
def test_encoding_round_trips(rows: list[tuple[int, int, float, int]], before: bytes) -> None:
    data = before + encode(message(rows))
    columns, end = decode(data + b"next", len(before))
    stored = list(zip(*columns, strict=True))
    assert repr([tuple(value.item() for value in row) for row in stored]) == repr(rows)
    assert end == len(data)


@pytest.mark.parametrize("count", [1, 24, 5000])
def test_the_bytes_are_those_of_the_documented_format(count: int) -> None:
    """The header, the ids, one run of context and one of sampled tokens, then the log-probabilities of the latter."""
    context = [(i % 1000, 0, math.nan, NO_VERSION) for i in range(count)]
    sampled = [(70000 + i, 1, -i / 8, 3) for i in range(count)]
    ids = [row[0] for row in context + sampled]
    body = varint(2 * count) + bytes([4, 2]) + struct.pack(f"<{2 * count}i", *ids)
    body += varint(2 * count) + bytes([0]) + varint(2 * count + 1) + bytes([4])
    body += struct.pack(f"<{count}f", *(row[2] for row in sampled))
    assert encode(message(context + sampled)) == body


def test_context_takes_two_bytes_per_token_of_a_small_vocabulary() -> None:
    assert len(encode(message([(7 * i, 0, math.nan, NO_VERSION) for i in range(40)]))) == 3 + 2 * 40 + 2


@given(st.integers(0, 2**32 - 1))
def test_a_varint_round_trips(value: int) -> None:
    data = varint(value)
    assert len(data) == max(1, -(-value.bit_length() // 7))
    assert read_varint(data + b"\xff", 0) == (value, len(data))


def test_a_number_that_is_no_varint_is_refused() -> None:
    for value in (-1, 2**32):
        with pytest.raises(ValueError, match="does not fit 32 bits"):
            varint(value)
    with pytest.raises(ValueError, match="more than 32 bits"):
        read_varint(b"\xff" * 6, 0)


@pytest.mark.parametrize("count", [2, 100])
@pytest.mark.parametrize("row", [(2**31, 1, 0.0, 0), (1, 1, 0.0, -2), (1, 1, 0.0, 2**31)])
def test_values_out_of_range_are_rejected(count: int, row: tuple[int, int, float, int]) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        encode(message([row] * count))


def test_columns_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match="2 tokens, 1 mask"):
        encode(Message(0, None, Role.USER, Source.POLICY, [1, 2], [0], [0.0, 0.0], [0, 0]))


def test_a_log_probability_of_context_is_refused() -> None:
    with pytest.raises(ValueError, match="mask 0 has the log-probability NaN"):
        encode(message([(1, 0, -0.5, NO_VERSION)]))
