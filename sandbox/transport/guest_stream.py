"""Host side of one byte stream to a program in a sandbox."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Protocol, cast

from ..errors import SandboxError, StreamError, StreamTimeout
from ..guest.frames import WINDOW_BYTES

FRAME_BYTES = 64 << 10


class Carrier(Protocol):
    """The connection that carries a stream."""

    @property
    def name(self) -> str:
        """Return the name of the sandbox."""

    async def send(self, header: dict[str, Any], payload: bytes = b"") -> None:
        """Send one frame. Raises EOFError."""

    def write(self, header: dict[str, Any], payload: bytes = b"") -> None:
        """Queue one frame. Raises EOFError."""

    def forget(self, number: int) -> None:
        """Drop further frames of a stream."""


class GuestStream:
    """One stream, used in one event loop. Holds at most ``WINDOW_BYTES`` per channel that were not received yet."""

    def __init__(self, carrier: Carrier, number: int, channels: int = 1) -> None:
        self.number = number
        self.exit_code: int | None = None
        """Of the process, once it has exited."""
        self._carrier = carrier
        self._inbox = [bytearray() for _ in range(channels)]
        self._unacknowledged = [0] * channels
        """Bytes received by the caller and not yet granted to the guest again, by channel."""
        self._ended = [False] * channels
        self._credit = WINDOW_BYTES
        self._input_closed = False
        self._error: SandboxError | None = None
        self._changed = asyncio.Event()

    async def send(self, data: bytes, *, timeout_s: float) -> None:
        """Send bytes; wait while the program does not read.

        Raises:
            StreamError: the program closed its input, or the stream was closed.
            StreamTimeout: the program did not read the data within ``timeout_s``; a part may have been sent.
            SandboxLost: the sandbox ended.
        """
        view = memoryview(data)
        async with _deadline(timeout_s, f"the program did not read within {timeout_s:g} s"):
            while view:
                await self._until(lambda: self._credit > 0 or self._input_closed)
                if self._input_closed:
                    raise StreamError("the program closed its input")
                part = view[: min(self._credit, FRAME_BYTES)]
                self._credit -= len(part)
                view = view[len(part) :]
                await self._carry({}, bytes(part))

    async def receive(self, max_bytes: int = FRAME_BYTES, *, timeout_s: float, channel: int = 0) -> bytes:
        """Return the next bytes, at least one; empty at the end of the channel.

        Raises:
            StreamError: the stream was closed.
            StreamTimeout: nothing arrived within ``timeout_s``.
            SandboxLost: the sandbox ended.
        """
        inbox = self._inbox[channel]
        if not inbox:
            async with _deadline(timeout_s, f"the program sent nothing within {timeout_s:g} s"):
                await self._until(lambda: bool(inbox) or self._ended[channel])
        data = bytes(inbox[:max_bytes])
        del inbox[:max_bytes]
        self._unacknowledged[channel] += len(data)
        if self._unacknowledged[channel] >= WINDOW_BYTES // 2 and not self._ended[channel] and not self._error:
            granted, self._unacknowledged[channel] = self._unacknowledged[channel], 0
            await self._carry({"channel": channel, "credit": granted})
        return data

    async def end_input(self) -> None:
        """Close the input of the program, which then reads the end of its data. Raises StreamError, SandboxLost."""
        if not self._input_closed:
            await self._carry({"eof": True})
            self._input_closed = True

    async def wait(self, *, timeout_s: float) -> int:
        """Return the exit code of the process, or minus the signal number.

        Raises:
            StreamError: the stream was closed.
            StreamTimeout: the process did not exit within ``timeout_s``.
            SandboxLost: the sandbox ended.
        """
        async with _deadline(timeout_s, f"the process did not exit within {timeout_s:g} s"):
            await self._until(lambda: self.exit_code is not None)
        return cast(int, self.exit_code)

    async def send_signal(self, number: int) -> None:
        """Send a signal to the process; do nothing after its exit. Raises StreamError, SandboxLost."""
        await self._carry({"signal": number})

    def close(self) -> None:
        """Close the stream and kill its process, with the children of its session. Raises nothing."""
        if self._error is None:
            self.fail(StreamError("the stream was closed"))
            with contextlib.suppress(EOFError):
                self._carrier.write({"stream": self.number, "close": True})
        self._carrier.forget(self.number)

    def fail(self, error: SandboxError) -> None:
        """Let every present and later call raise ``error``, except for bytes and exit codes that have arrived."""
        self._error = self._error or error
        self._changed.set()

    def on_frame(self, header: dict[str, Any], payload: bytes) -> None:
        """Handle a frame of this stream. Raises ValueError if the guest exceeds its window."""
        if "exit_code" in header:
            self.exit_code = int(header["exit_code"])
        elif "input_closed" in header:
            self._input_closed = True
        elif "credit" in header:
            self._credit += int(header["credit"])
        elif "end" in header:
            self._ended[header["channel"]] = True
        else:
            channel = header["channel"]
            if len(self._inbox[channel]) + self._unacknowledged[channel] + len(payload) > WINDOW_BYTES:
                raise ValueError(f"stream {self.number} exceeds its window of {WINDOW_BYTES} bytes")
            self._inbox[channel] += payload
        self._changed.set()

    async def _carry(self, header: dict[str, Any], payload: bytes = b"") -> None:
        if self._error is not None:
            raise self._error
        try:
            await self._carrier.send({"stream": self.number, **header}, payload)
        except EOFError:
            raise self._error or StreamError("the stream was closed") from None

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            if self._error is not None:
                raise self._error
            self._changed.clear()
            await self._changed.wait()


class _deadline:
    """Turn the end of a time into StreamTimeout."""

    def __init__(self, timeout_s: float, text: str) -> None:
        self._timeout, self._text = asyncio.timeout(timeout_s), text

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            raise StreamTimeout(self._text) from None
