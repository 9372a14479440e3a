"""Blocking handles of streams, for threads without an event loop."""

import io
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ..loop_thread import LoopThread
from ..transport.guest_stream import FRAME_BYTES, GuestStream

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
