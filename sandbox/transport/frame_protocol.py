"""Frames over a byte stream of asyncio, received by callbacks, so that an answer needs no separate task."""

import asyncio
import os
import socket
from typing import Any, cast

from ..guest.frames import encode, take_frames

HEADER_MAX_BYTES, PAYLOAD_MAX_BYTES = 4 << 20, 300 << 20
MALFORMED = (ValueError, LookupError, TypeError, ArithmeticError, RecursionError)
"""Errors that a frame of the other side can cause, such as one of nested lists or with an infinite number."""


class FrameProtocol(asyncio.Protocol):
    """One end of a connection; subclasses implement ``on_frame`` and ``on_end``."""

    header_max_bytes = HEADER_MAX_BYTES
    payload_max_bytes = PAYLOAD_MAX_BYTES

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.source: FrameProtocol | None = None
        """The connection whose frames are written to this one, which pauses while this one cannot keep up."""
        self._received = bytearray()
        self._writable = asyncio.Event()
        self._writable.set()
        self._ended = False

    def on_frame(self, header: dict[str, Any], payload: bytes) -> None:
        """Handle one frame. An error of ``MALFORMED`` ends the connection."""
        raise NotImplementedError

    def on_end(self, error: Exception) -> None:
        """Handle the end of the connection; called once, also after ``close_transport``."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport, or close it if this end was closed before."""
        self.transport = cast(asyncio.Transport, transport)
        if self._ended:
            transport.close()

    def data_received(self, data: bytes) -> None:
        """Pass on every whole frame."""
        self._received += data
        try:
            for header, payload in take_frames(self._received, self.header_max_bytes, self.payload_max_bytes):
                if self._ended:
                    return
                self.on_frame(header, payload)
        except MALFORMED as error:
            self._end(error)

    def connection_lost(self, error: Exception | None) -> None:
        """Report the end."""
        self._end(error or EOFError("the other side closed the connection"))

    def pause_writing(self) -> None:
        """Let senders wait."""
        self._writable.clear()
        if self.source is not None and self.source.transport is not None:
            self.source.transport.pause_reading()

    def resume_writing(self) -> None:
        """Let senders continue."""
        self._writable.set()
        if self.source is not None and self.source.transport is not None:
            self.source.transport.resume_reading()

    def write(self, header: dict[str, Any], payload: bytes = b"") -> None:
        """Queue one frame. Raises EOFError."""
        if self._ended or self.transport is None:
            raise EOFError("the connection is closed")
        self.transport.write(encode(header, payload))

    async def send(self, header: dict[str, Any], payload: bytes = b"") -> None:
        """Queue one frame and wait until the other side keeps up. Raises EOFError."""
        self.write(header, payload)
        await self._writable.wait()

    def close_transport(self) -> None:
        """Close the connection at once."""
        self._end(EOFError("closed"))

    def duplicate_socket(self) -> socket.socket:
        """Return a duplicate of the socket, which the caller must close. Raises EOFError."""
        if self.transport is None:
            raise EOFError("the connection is closed")
        return socket.socket(fileno=os.dup(self.transport.get_extra_info("socket").fileno()))

    def _end(self, error: Exception) -> None:
        if self._ended:
            return
        self._ended = True
        self._writable.set()
        self._received.clear()
        if self.transport is not None:
            self.transport.close()
        self.on_end(error)
