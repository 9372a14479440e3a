"""A connection to the accessibility bus: many calls are sent at once, then their replies are collected in one pass."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Sequence
from typing import Any

from ..deadline import INTERVAL_S, Timeout
from .dbus_wire import ERROR, FIXED_HEADER_BYTES, METHOD_RETURN, REPLY_SERIAL, body_of, call, message_bytes, parse

CHUNK_BYTES = 1 << 18
CONNECT_TIMEOUT_S = 2.0
BUS = "org.freedesktop.DBus"

Call = tuple[str, str, str, str, str, tuple[Any, ...]]
"""Destination, object path, interface, member, signature of the arguments, arguments."""


class Bus:
    """One connection; a method call that is not answered within its timeout has no result.

    Raises:
        OSError: the bus is gone.
    """

    def __init__(self, path: str) -> None:
        self.end = socket.socket(socket.AF_UNIX)
        self.end.settimeout(CONNECT_TIMEOUT_S)
        self.end.connect(path)
        self.received = bytearray()
        self.serial = 0
        user = str(os.getuid()).encode().hex()
        self.end.sendall(f"\0AUTH EXTERNAL {user}\r\n".encode())
        if not self.end.recv(CHUNK_BYTES).startswith(b"OK"):
            raise ConnectionError("the accessibility bus refused the connection")
        self.end.sendall(b"BEGIN\r\n")
        self.end.setblocking(False)
        self.call((BUS, "/org/freedesktop/DBus", BUS, "Hello", "", ()), CONNECT_TIMEOUT_S)

    def close(self) -> None:
        """Close the connection."""
        self.end.close()

    def call(self, one: Call, timeout_s: float) -> list[Any] | None:
        """Return the values of one reply; None after an error or the timeout."""
        return self.calls([one], timeout_s)[0]

    def calls(self, wanted: Sequence[Call], timeout_s: float) -> list[list[Any] | None]:
        """Return the values of the replies in the order of the calls; None for an error or after the timeout."""
        timeout = Timeout(timeout_s)
        serials: dict[int, int] = {}
        unsent = bytearray()
        for index, (destination, path, interface, member, signature, values) in enumerate(wanted):
            self.serial += 1
            serials[self.serial] = index
            body = body_of(signature, values)
            unsent += call(self.serial, destination, path, interface, member, signature, body)
        results: list[list[Any] | None] = [None] * len(wanted)
        while serials:
            for kind, fields, reply in self._messages():
                index = serials.pop(fields.get(REPLY_SERIAL, 0), -1) if kind in (METHOD_RETURN, ERROR) else -1
                if index >= 0 and kind == METHOD_RETURN:
                    results[index] = reply
            left_s = timeout.left_s()
            if not serials or left_s <= 0:
                break
            readable, writable, _ = select.select([self.end], [self.end] if unsent else [], [], min(left_s, INTERVAL_S))
            if writable:
                del unsent[: self.end.send(unsent)]
            if readable:
                self._receive()
        # A part of a message must not be followed by another message.
        if unsent:
            raise ConnectionError("the accessibility bus does not read")
        return results

    def _receive(self) -> None:
        chunk = self.end.recv(CHUNK_BYTES)
        if not chunk:
            raise ConnectionError("the accessibility bus closed the connection")
        self.received += chunk

    def _messages(self) -> list[tuple[int, dict[int, Any], list[Any]]]:
        """Return the complete messages received so far."""
        messages, at = [], 0
        data = bytes(self.received)
        while len(data) - at >= FIXED_HEADER_BYTES:
            size = message_bytes(data[at : at + FIXED_HEADER_BYTES])
            if len(data) - at < size:
                break
            messages.append(parse(data[at : at + size]))
            at += size
        del self.received[:at]
        return messages
