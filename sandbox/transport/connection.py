"""Host side of the connection to one guest agent.

Each request is answered before the next one is sent; streams run next to the requests. A timeout or a cancellation of a
request breaks this order, so it closes the connection. A closed connection is never reopened, and its sandbox is lost.
"""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, cast

from ..errors import SandboxBroken, SandboxBusy, SandboxError, SandboxLost, StreamError
from ..guest.frames import decode_header
from .frame_protocol import MALFORMED, PAYLOAD_MAX_BYTES, FrameProtocol
from .guest_stream import FRAME_BYTES, GuestStream

REASON_MAX_CHARACTERS = 200
BROKEN_BY_MEMORY = "its memory limit ended it"
REPORT = b'{"ended": '
"""Start of the report of process 1 (``guest.processes.watch``)."""
START_SLACK_S = 2.0
"""Time by which a guest agent may have started before the host has its connection; its time to live ends as early."""


class GuestConnection(FrameProtocol):
    """A stream connection, used in one event loop; concurrent calls wait for one another.

    The guest agent sends the first frame, which ``hello`` returns.
    """

    lost_error: type[SandboxError] = SandboxLost
    """Raised when the connection breaks."""
    lost_message = "the guest agent ended, and the sandbox with it: something outside the sandbox stopped it"

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.closed_reason = ""
        """Why the connection is closed; empty while it is open."""
        self.ends_at = float("inf")
        """When the sandbox's time to live ends, as a value of ``time.monotonic()``."""
        self._lock = asyncio.Lock()
        self._running = ""
        """The operation that holds the lock."""
        self._answer: asyncio.Future[tuple[dict[str, Any], bytes]] = asyncio.get_running_loop().create_future()
        self._streams: dict[int, GuestStream] = {}
        self._stream_number = 0
        self.inquire: Callable[[], Awaitable[bool]] | None = None
        """Returns whether the commands of the sandbox broke it, if process 1 could not report how it ended."""
        self._lent_to: FrameProtocol | None = None
        self._socket_lent = False
        self.on_lent_end: Callable[[str], None] | None = None
        """Called with the reason if the connection ends while it is lent."""

    @property
    def alive(self) -> bool:
        """Return whether the connection is open, as far as known without a request."""
        return not self.closed_reason

    @property
    def streams_opened(self) -> bool:
        """Return whether a stream was ever opened, so that frames may arrive without a request."""
        return self._stream_number > 0

    async def hello(self) -> dict[str, Any]:
        """Return the first frame. Raises OSError, EOFError, ValueError."""
        return (await self._answer)[0]

    async def call(
        self, header: dict[str, Any], payload: bytes = b"", *, timeout_s: float, max_bytes: int = 0
    ) -> tuple[Any, bytes]:
        """Send a request and return its answer, whose payload may have ``max_bytes``.

        The time for which the request waits for another one is taken from ``timeout_s`` of its header.

        Raises:
            SandboxBusy: another request took all the time of this one.
            SandboxBroken: the commands of the sandbox broke it.
            SandboxLost: something outside the sandbox ended it, or it did not answer; subclasses set ``lost_error``.
        """
        operation = f"sandbox {self.name}: {header['op']}"
        if self._lock.locked():
            began, most = monotonic(), header.get("timeout_s", timeout_s)
            try:
                async with asyncio.timeout(most):
                    await self._lock.acquire()
            except TimeoutError:
                raise SandboxBusy(
                    f"{operation}: not sent within {most:g} s, because `{self._running}` runs; a sandbox runs one "
                    "request at a time"
                ) from None
            waited = monotonic() - began
            timeout_s -= waited
            header = {**header, **({"timeout_s": max(0.0, most - waited)} if "timeout_s" in header else {})}
        else:
            await self._lock.acquire()
        try:
            self._running = header["op"]
            self.payload_max_bytes = max(max_bytes, FRAME_BYTES)
            if self.closed_reason:
                await self.find_cause()
                raise self.lost_error(f"{operation}: {self.closed_reason}")
            answer: asyncio.Future[tuple[dict[str, Any], bytes]] = asyncio.get_running_loop().create_future()
            self._answer = answer
            try:
                async with asyncio.timeout(timeout_s):
                    await self.send(header, payload)
                    return await answer
            except TimeoutError:
                self.close(f"no answer within {timeout_s:g} s")
                raise self.lost_error(f"{operation}: {self.closed_reason}") from None
            except (OSError, EOFError, *MALFORMED) as error:
                self.close(self._reason(error))
                await self.find_cause()
                raise self.lost_error(f"{operation}: {self.closed_reason}") from error
            except BaseException:
                self.close("an earlier call was cancelled before its answer arrived")
                raise
            finally:
                answer.cancel()
        finally:
            self._lock.release()

    async def open_stream(self, header: dict[str, Any], channels: int, *, timeout_s: float) -> GuestStream:
        """Send a request that opens a stream of some output ``channels``, and return the stream.

        Raises:
            StreamError: the guest agent could not open it.
            SandboxLost: as in ``call``.
        """
        self._stream_number += 1
        stream = self._streams[self._stream_number] = GuestStream(self, self._stream_number, channels)
        try:
            answer, _ = await self.call({**header, "stream": stream.number}, timeout_s=timeout_s)
            if "failure" in answer:
                self.close(f"its guest agent failed: {answer['failure']}")
                raise self.lost_error(f"sandbox {self.name}: {self.closed_reason}")
            if "error" in answer:
                raise StreamError(str(answer["error"]))
        except BaseException:
            self.forget(stream.number)
            raise
        return stream

    def end_streams(self, reason: str) -> None:
        """Let every call of every stream raise StreamError with ``reason``."""
        for stream in list(self._streams.values()):
            stream.fail(StreamError(reason))
        self._streams.clear()

    def forget(self, number: int) -> None:
        """Drop further frames of a stream."""
        self._streams.pop(number, None)

    def on_frame(self, header: dict[str, Any], payload: bytes) -> None:
        """Pass a frame to its stream, to the waiting call, or to the process that the connection is lent to."""
        if "ended" in header:
            self._on_report(header)
        elif self._lent_to is not None:
            self._lent_to.write(header, payload)
        elif "stream" in header:
            if stream := self._streams.get(header["stream"]):
                stream.on_frame(header, payload)
        elif self._answer.done():
            raise ValueError("the guest agent sent an answer without a request")
        else:
            self._answer.set_result((header, payload))

    def connection_lost(self, error: Exception | None) -> None:
        """Report the end; the report of process 1 may follow a frame that the guest agent did not finish."""
        start = self._received.rfind(REPORT)
        if start >= 0:
            with contextlib.suppress(*MALFORMED):
                self._on_report(decode_header(bytes(self._received[start:])))
        super().connection_lost(error)

    async def find_cause(self) -> None:
        """Set ``lost_error`` of a connection that the other side closed without a report."""
        inquire, self.inquire = self.inquire, None
        if inquire is not None and self.closed_reason == GuestConnection.lost_message and await inquire():
            self.lost_error, self.closed_reason = SandboxBroken, BROKEN_BY_MEMORY

    def _on_report(self, header: dict[str, Any]) -> None:
        """End the connection for the reason that process 1 of the sandbox reports. Raises an error of ``MALFORMED``."""
        ended = header["ended"]
        self.lost_error = SandboxBroken if ended["broken"] else SandboxLost
        self.lost_message = str(ended["reason"])[:REASON_MAX_CHARACTERS]
        self.close_transport()

    def on_end(self, error: Exception) -> None:
        """Let every waiting call raise an error."""
        if isinstance(error, MALFORMED):
            self.lost_error = SandboxBroken
        self.closed_reason = self.closed_reason or self._reason(error)
        if not self._answer.done():
            self._answer.set_exception(error)
            # Nobody may be waiting for it.
            self._answer.exception()
        for stream in self._streams.values():
            stream.fail(self.lost_error(f"sandbox {self.name}: {self.closed_reason}"))
        self._streams.clear()
        on_lent_end, self.on_lent_end = self.on_lent_end, None
        if on_lent_end is not None:
            on_lent_end(self.closed_reason)

    def _reason(self, error: Exception) -> str:
        """Return why the connection ended by ``error``."""
        if monotonic() >= self.ends_at - START_SLACK_S:
            return "its time to live (`ttl_s` of its spec) ended"
        if isinstance(error, MALFORMED):
            text = f"{type(error).__name__}: {error}"
            return f"its guest agent sent a malformed frame: {text[:REASON_MAX_CHARACTERS]}"
        return self.lost_message

    def lend_frames(self, to: FrameProtocol) -> None:
        """Pass every frame of the guest agent to ``to``, which writes its own frames with ``write``."""
        self._lent_to, self.payload_max_bytes = to, PAYLOAD_MAX_BYTES
        to.source, self.source = self, to

    def lend_socket(self) -> socket.socket:
        """Stop reading and return a duplicate of the socket, for another process to use until ``take_back``."""
        duplicate = self.duplicate_socket()
        self._socket_lent = True
        cast(asyncio.Transport, self.transport).pause_reading()
        return duplicate

    def take_back(self) -> None:
        """End a loan whose user left no request, answer or stream open."""
        self.on_lent_end, self._lent_to, self.source = None, None, None
        if not self.closed_reason and self.transport is not None:
            self._socket_lent = False
            self.transport.resume_reading()

    def close(self, reason: str = "closed") -> None:
        """Close the connection, upon which the guest agent ends its sandbox."""
        self.closed_reason = self.closed_reason or reason
        if self._socket_lent:
            # Another process may still hold the socket.
            self._socket_lent = False
            with contextlib.suppress(OSError), self.duplicate_socket() as end:
                end.shutdown(socket.SHUT_RDWR)
        self.close_transport()
