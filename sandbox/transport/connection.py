"""Host side of the connection to one guest agent.

Each request is answered before the next one is sent. A timeout or a cancellation breaks this order, so it closes the
connection. A closed connection is never reopened, and its sandbox is lost.
"""

import asyncio
from typing import Any, Protocol

from ..errors import SandboxError, SandboxLost
from ..guest.frames import LENGTHS, decode_header, decode_lengths, encode

HEADER_MAX_BYTES, PAYLOAD_MAX_BYTES = 4 << 20, 300 << 20
STREAM_LIMIT_BYTES = 1 << 20
"""Bytes that a stream buffers before the sender must wait."""


class Connection(Protocol):
    """A way to a guest agent: the socket itself, or a node of the cluster that forwards requests."""

    @property
    def alive(self) -> bool:
        """Return whether the connection is usable, as far as known without a request."""
        ...

    async def call(self, header: dict[str, Any], payload: bytes = b"", *, timeout_s: float) -> tuple[Any, bytes]:
        """Send a request and return its answer.

        Raises:
            SandboxLost: the sandbox ended or did not answer.
            NodeLost: the node that forwards requests ended or did not answer.
        """
        ...

    def close(self, reason: str = "closed") -> None:
        """Close the connection; later calls raise an error with ``reason``."""
        ...


class GuestConnection:
    """A stream connection, used in one event loop; concurrent calls wait for one another."""

    lost_error: type[SandboxError] = SandboxLost
    """Raised when the connection breaks."""
    lost_message = "the guest agent ended, and the sandbox with it: something outside the sandbox probably stopped it"

    def __init__(self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.name = name
        self.closed_reason = ""
        """Why the connection is closed; empty while it is open."""
        self._reader = reader
        self._writer = writer
        self._lock = asyncio.Lock()

    @property
    def alive(self) -> bool:
        """Return whether the connection is open, as far as known without a request."""
        return not self.closed_reason and not self._reader.at_eof()

    async def call(self, header: dict[str, Any], payload: bytes = b"", *, timeout_s: float) -> tuple[Any, bytes]:
        """Send a request and return its answer.

        Raises:
            SandboxLost: the connection was closed, or breaks during the call. Subclasses set ``lost_error``.
        """
        operation = f"sandbox {self.name}: {header['op']}"
        async with self._lock:
            if self.closed_reason:
                raise self.lost_error(f"{operation}: {self.closed_reason}")
            try:
                async with asyncio.timeout(timeout_s):
                    await self.send(header, payload)
                    return await self.receive()
            except TimeoutError:
                self.close(f"no answer within {timeout_s:g} s")
                raise self.lost_error(f"{operation}: {self.closed_reason}") from None
            except (OSError, EOFError, ValueError) as error:
                self.close(self.lost_message)
                raise self.lost_error(f"{operation}: {self.closed_reason}") from error
            except BaseException:
                self.close("an earlier call was cancelled before its answer arrived")
                raise

    async def send(self, header: dict[str, Any], payload: bytes = b"") -> None:
        """Write one frame. Raises OSError."""
        self._writer.write(encode(header, payload))
        await self._writer.drain()

    async def receive(self) -> tuple[dict[str, Any], bytes]:
        """Return header and payload of the next frame.

        Raises:
            EOFError: the other side closed the connection.
            ValueError: the frame is malformed or too large.
        """
        header_bytes, payload_bytes = decode_lengths(await self._reader.readexactly(LENGTHS.size))
        if header_bytes > HEADER_MAX_BYTES or payload_bytes > PAYLOAD_MAX_BYTES:
            raise ValueError(f"a frame of {header_bytes} and {payload_bytes} bytes exceeds the limits")
        header = decode_header(await self._reader.readexactly(header_bytes))
        return header, await self._reader.readexactly(payload_bytes)

    def close(self, reason: str = "closed") -> None:
        """Close the connection, upon which the guest agent ends its sandbox."""
        self.closed_reason = self.closed_reason or reason
        self._writer.close()
