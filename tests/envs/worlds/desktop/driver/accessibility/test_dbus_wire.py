"""Messages of the accessibility bus: written as D-Bus demands, and read without trust."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from turnwise.envs.worlds.desktop.driver.accessibility import dbus_wire as wire

MESSAGE = wire.call(7, ":1.2", "/a", "org.x", "Get", "sui", wire.body_of("sui", ("é", 5, -1)))


def test_a_message_reads_back_as_it_was_written() -> None:
    kind, fields, values = wire.parse(MESSAGE)
    assert wire.message_bytes(MESSAGE[:16]) == len(MESSAGE)
    assert (kind, values) == (wire.METHOD_CALL, ["é", 5, -1])
    assert (fields[wire.DESTINATION], fields[wire.MEMBER]) == (":1.2", "Get")


def test_a_signature_splits_into_complete_types() -> None:
    assert wire.split("a(so)u") == ("a(so)", "u")
    assert wire.split("aa{sv}") == ("aa{sv}", "")


def test_an_array_of_structures_is_read() -> None:
    item = struct.pack("<Ii", 1, 2)
    value, end = wire.read("a(ui)", struct.pack("<I4x", 16) + item + item, 0)
    assert (value, end) == ([(1, 2), (1, 2)], 24)


def test_another_byte_order_is_refused() -> None:
    with pytest.raises(ValueError, match="accessibility bus"):
        wire.message_bytes(b"B" + MESSAGE[1:16])


@given(st.integers(0, len(MESSAGE) - 1), st.integers(0, 255))
def test_a_damaged_message_is_read_or_refused(place: int, value: int) -> None:
    damaged = MESSAGE[:place] + bytes((value,)) + MESSAGE[place + 1 :]
    try:
        wire.message_bytes(damaged[:16])
        wire.parse(damaged)
    except ValueError:
        return
