"""The messages of a turn round-trip, in a documented format that is read by any later program."""

import math
import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from turnwise.records import NO_VERSION, Message, Role, Source
from turnwise.store.content.message_codec import COMPRESSED, PLAIN, ROLES, SOURCES, decode, encode
from turnwise.store.content.token_codec import encode as encode_tokens

SEEN = Message(2, 1, Role.USER, Source.ENV, [5, 6], [0, 0], [math.nan] * 2, [NO_VERSION] * 2)
COLUMNS = ("tokens", "mask", "logprobs", "versions")
ANSWER = Message(300, 2, Role.ASSISTANT, Source.POLICY, [7], [1], [-0.5], [4], images=("ab",), agent="ré\ud800")


def plain(message: Message) -> str:
    head = [getattr(message, name) for name in ("index", "parent", "role", "source", "images", "agent")]
    return repr([head, *(list(map(float, getattr(message, name))) for name in COLUMNS)])


@given(
    st.lists(
        st.builds(
            replace,
            st.sampled_from([SEEN, ANSWER]),
            index=st.integers(0, 2**31 - 1),
            parent=st.none() | st.integers(0, 2**31 - 1),
            role=st.sampled_from(Role),
            source=st.sampled_from(Source),
            agent=st.text(max_size=200),
        ),
        unique_by=lambda one: one.index,
        max_size=5,
    )
)
def test_messages_round_trip(messages: list[Message]) -> None:
    images = {one.index: one.images for one in messages}
    assert list(map(plain, decode(encode(messages), images))) == list(map(plain, messages))


def test_the_bytes_are_those_of_the_documented_format() -> None:
    agent = "ré".encode() + b"\xed\xa0\x80"
    body = bytes([2, 2, 1, 6, 0]) + encode_tokens(SEEN) + bytes([0xAC, 2, 3, 2, 0, len(agent)]) + agent
    assert encode([SEEN, ANSWER]) == bytes([PLAIN]) + body + encode_tokens(ANSWER)
    long = replace(SEEN, tokens=[9] * 500, mask=[0] * 500, logprobs=[math.nan] * 500, versions=[NO_VERSION] * 500)
    data = encode([long])
    assert data[0] == COMPRESSED
    assert zlib.decompress(data[1:]) == bytes([2, 2, 1, 6, 0]) + encode_tokens(long)


def test_every_word_has_a_code() -> None:
    """A code is the position: a change of the order would change the meaning of stored bytes."""
    assert set(ROLES) == set(Role)
    assert set(SOURCES) == set(Source)
    assert [role.value for role in ROLES] == ["system", "user", "assistant", "tool"]
    assert [source.value for source in SOURCES] == [
        *("policy", "expert", "patch", "replay", "world_model", "peer", "env", "template")
    ]


@given(st.binary(max_size=60), st.integers(0, 40))
def test_torn_or_altered_bytes_are_refused_or_read(data: bytes, cut: int) -> None:
    """No bytes make the decoder fail in another way, or return columns of unequal length."""
    whole = encode([SEEN, ANSWER])
    for bytes_read in (data, bytes([PLAIN]) + data, whole[:cut], whole + data):
        try:
            messages = decode(bytes_read, {})
        except ValueError:
            continue
        for one in messages:
            assert len({len(one.tokens), len(one.mask), len(one.logprobs), len(one.versions)}) == 1


@pytest.mark.parametrize("data", [b"", b"\x03", b"\x00abc"])
def test_an_unknown_format_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="this turnwise reads 01 and 02"):
        decode(data, {})
