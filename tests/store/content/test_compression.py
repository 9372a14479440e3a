"""A compressed stream is read whole, up to a bound."""

import zlib

import pytest
from turnwise.store.content.blobs import ZLIB, _decoded
from turnwise.store.content.compression import inflate
from turnwise.store.content.message_codec import COMPRESSED, decode

SMALL_BOUND = 1000


def test_a_stream_is_read_whole() -> None:
    assert inflate(zlib.compress(b"x" * 5000)) == b"x" * 5000
    for altered in (zlib.compress(b"x" * 50)[:-1], zlib.compress(b"x") + b"y", b"no stream", b""):
        with pytest.raises(ValueError, match="was altered"):
            inflate(altered)


def test_a_stream_above_the_bound_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnwise.store.content.compression.MAX_BYTES", SMALL_BOUND)
    assert len(inflate(zlib.compress(bytes(SMALL_BOUND)))) == SMALL_BOUND
    bomb = zlib.compress(bytes(SMALL_BOUND + 1))
    with pytest.raises(ValueError, match="more than 1,000 bytes"):
        inflate(bomb)
    with pytest.raises(ValueError, match="not messages in a known format"):
        decode(bytes([COMPRESSED]) + bomb, {})
    assert _decoded(bomb, ZLIB) == bomb, "its hash then reveals it"
