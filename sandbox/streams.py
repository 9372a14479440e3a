"""Streams of a lease: to a server in its sandbox, to a process in it, and from a port of this machine.

A stream ends with its lease. To add a kind of stream, add an operation to ``guest.server`` that opens it, a method to
``sandbox.Sandbox``, and its blocking form here.
"""

import asyncio
import contextlib
import io
import os
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

from .errors import SandboxError
from .loop_thread import LoopThread
from .sandbox import Sandbox
from .transport.guest_stream import FRAME_BYTES, GuestStream

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer


class SandboxStream:
    """A byte stream to a server in a sandbox. Methods raise as those of ``GuestStream`` do."""

    def __init__(self, stream: GuestStream, thread: LoopThread) -> None:
        """Wrap ``stream``, which lives in ``thread``."""
        self._stream = stream
        self._thread = thread

    def __enter__(self) -> Self:
        """Return the stream, which the end of the ``with`` block closes."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the stream."""
        self.close()

    def send(self, data: bytes, *, timeout_s: float) -> None:
        """Send bytes as ``GuestStream.send`` does."""
        self._thread.wait(self._stream.send(data, timeout_s=timeout_s), timeout_s)

    def recv(self, max_bytes: int = FRAME_BYTES, *, timeout_s: float) -> bytes:
        """Return the next bytes, empty at the end, as ``GuestStream.receive`` does."""
        return self._receive(max_bytes, 0, timeout_s)

    def end_input(self, *, timeout_s: float) -> None:
        """Close the input of the program, which then reads the end of its data."""
        self._thread.wait(self._stream.end_input(), timeout_s)

    def close(self) -> None:
        """Close the stream. Raises nothing; further calls do nothing."""
        self._thread.call_soon(self._stream.close)

    def makefile(self, *, timeout_s: float) -> io.BufferedRWPair:
        """Return the stream as a binary file, whose every read and write has the timeout."""
        raw = StreamFile(self, 0, timeout_s)
        return io.BufferedRWPair(raw, raw)

    def _receive(self, max_bytes: int, channel: int, timeout_s: float) -> bytes:
        work = self._stream.receive(max_bytes, timeout_s=timeout_s, channel=channel)
        return self._thread.wait(work, timeout_s)


class SandboxProcess(SandboxStream):
    """A running command of a sandbox: ``send`` writes to its stdin and ``recv`` reads its stdout."""

    def recv_stderr(self, max_bytes: int = FRAME_BYTES, *, timeout_s: float) -> bytes:
        """Return the next bytes of stderr, empty at the end."""
        return self._receive(max_bytes, 1, timeout_s)

    def wait(self, *, timeout_s: float) -> int:
        """Return the exit code, or minus the signal number, as ``GuestStream.wait`` does."""
        return self._thread.wait(self._stream.wait(timeout_s=timeout_s), timeout_s)

    def send_signal(self, number: int, *, timeout_s: float) -> None:
        """Send a signal to the process; do nothing after its exit."""
        self._thread.wait(self._stream.send_signal(number), timeout_s)


class StreamFile(io.RawIOBase):
    """One channel and the input of a stream as an unbuffered file."""

    def __init__(self, stream: SandboxStream, channel: int, timeout_s: float) -> None:
        self._stream = stream
        self._channel = channel
        self._timeout_s = timeout_s

    def readable(self) -> bool:
        """Return True."""
        return True

    def writable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """Read at least one byte, or none at the end."""
        with memoryview(buffer).cast("B") as view:
            data = self._stream._receive(len(view), self._channel, self._timeout_s)
            view[: len(data)] = data
        return len(data)

    def write(self, data: "ReadableBuffer") -> int:
        """Write all bytes."""
        plain = bytes(data)
        self._stream.send(plain, timeout_s=self._timeout_s)
        return len(plain)


IDLE_TIMEOUT_S = 3600.0
"""Time without a byte after which a forwarded connection is closed."""


class Forward:
    """A listener in the event loop of the sandbox."""

    def __init__(self, sandbox: Sandbox, address: int | str, timeout_s: float) -> None:
        """Forward to ``address`` in the sandbox; ``timeout_s`` is the one of each connect."""
        self.port = 0
        """Port of 127.0.0.1; 0 for a unix socket."""
        self._sandbox = sandbox
        self._address = address
        self._timeout_s = timeout_s
        self._server: asyncio.Server | None = None
        self._path: Path | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, path: Path | None) -> None:
        """Listen on a unix socket, or on a free port of 127.0.0.1. Raises OSError."""
        if path is not None:
            self._path, self._server = path, await asyncio.start_unix_server(self._serve, path)
            os.chmod(path, 0o600)  # noqa: PTH101 - returns at once
        else:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
            self.port = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        """Stop listening and end every connection."""
        if self._server is not None:
            self._server.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)
        for task in self._tasks:
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = cast(asyncio.Task[None], asyncio.current_task())
        self._tasks.add(task)
        stream = None
        try:
            stream = await self._sandbox.connect(self._address, timeout_s=self._timeout_s)
            async with asyncio.TaskGroup() as both:
                both.create_task(_send(reader, stream))
                both.create_task(_receive(stream, writer))
        except* (OSError, SandboxError):
            pass
        finally:
            self._tasks.discard(task)
            if stream is not None:
                stream.close()
            with contextlib.suppress(RuntimeError):
                writer.close()


async def _send(reader: asyncio.StreamReader, stream: GuestStream) -> None:
    while data := await reader.read(FRAME_BYTES):
        await stream.send(data, timeout_s=IDLE_TIMEOUT_S)
    await stream.end_input()


async def _receive(stream: GuestStream, writer: asyncio.StreamWriter) -> None:
    while data := await stream.receive(timeout_s=IDLE_TIMEOUT_S):
        writer.write(data)
        await writer.drain()
    writer.write_eof()
