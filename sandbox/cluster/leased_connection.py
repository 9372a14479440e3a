"""Worker end of a lease: requests it, and reaches the guest agent through the passed socket or through the node."""

import asyncio
import contextlib
import logging
import os
import socket
from time import monotonic
from typing import Any

from .. import errors
from ..errors import NodeLost, SandboxBroken, SandboxError, SandboxLost
from ..guest.frames import encode, take_frames
from ..sandbox import Sandbox
from ..spec import SandboxSpec
from ..transport.connection import GuestConnection
from ..transport.frame_protocol import FrameProtocol
from .lease_server import NodeEndpoint

LOG = logging.getLogger(__name__)

NODE_GRACE_S = 10.0
"""Time after the timeout of a request when a node actor that has not answered counts as lost."""
NODE_ANSWER_S = 5.0
"""Time for a node actor to confirm that it outlives a sandbox whose guest agent ended."""
RELEASE_TIMEOUT_S = 5.0
"""Time to close the streams of a lease, after which its sandbox is replaced."""
ANSWER_BYTES = 64 << 10
REPORTS = {"sandbox_lost": SandboxLost, "sandbox_broken": SandboxBroken, "lease_over": NodeLost}
"""Error by report of the node that a sandbox, or its lease, ended."""
NODE_ENDED = "the node actor of the sandbox ended"


class LeasedConnection(GuestConnection):
    """The guest agent of a leased sandbox. If frames pass through the node, this is the connection of the lease too."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.lease: LeaseHolder | None = None
        """The connection of the lease, if it is a separate one."""
        self._tasks: set[asyncio.Task[None]] = set()

    def on_frame(self, header: dict[str, Any], payload: bytes) -> None:
        """Handle the reports of the node, and the frames of the guest agent."""
        if not self.on_report(header):
            super().on_frame(header, payload)

    def on_report(self, header: dict[str, Any]) -> bool:
        """End the connection if the node reports the end of the sandbox or of the lease."""
        for key, error in REPORTS.items():
            if key in header:
                # The guest agent may have reported first why it ended.
                if not self.closed_reason:
                    self.lost_error = error
                self.close(str(header[key]))
                return True
        return False

    def on_end(self, error: Exception) -> None:
        """End the lease too."""
        unexpected = not self.closed_reason
        super().on_end(error)
        if self.lease is not None and unexpected:
            self.lease.report_guest_end()
        elif self.lease is not None:
            self.lease.close_transport()

    async def call(
        self, header: dict[str, Any], payload: bytes = b"", *, timeout_s: float, max_bytes: int = 0
    ) -> tuple[Any, bytes]:
        """Send a request and return its answer, as ``GuestConnection.call`` does.

        Raises:
            SandboxBusy: as in ``GuestConnection.call``.
            NodeLost: the node actor ended, which ends its sandboxes too.
            SandboxLost: the sandbox ended, and the node actor confirmed it or did not answer.
        """
        try:
            return await super().call(header, payload, timeout_s=timeout_s, max_bytes=max_bytes)
        except SandboxLost as error:
            if self.lease is not None and await self.lease.node_ended():
                self.lost_error, self.closed_reason = NodeLost, NODE_ENDED
                raise NodeLost(f"sandbox {self.name}: {header['op']}: {NODE_ENDED}") from error
            raise

    def release(self) -> None:
        """End the lease. Raises nothing; further calls do nothing."""
        if self.closed_reason:
            return
        if self._lock.locked():
            self.close("released during a call")
        else:
            task = asyncio.get_running_loop().create_task(self._release())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _release(self) -> None:
        try:
            if self.streams_opened:
                self.end_streams("the lease was released")
                await self.call({"op": "close_streams"}, timeout_s=RELEASE_TIMEOUT_S)
            (self.lease or self).write({"released": True})
        except (SandboxError, EOFError) as error:
            LOG.info("a sandbox could not be released; it is replaced", extra={"reason": str(error)})
        self.close("released")


class LeaseHolder(FrameProtocol):
    """The connection of a lease whose guest agent is reached by another socket."""

    def __init__(self, guest: LeasedConnection) -> None:
        super().__init__()
        self._guest = guest
        self._closed = asyncio.Event()
        self._node_ended = False

    def on_frame(self, header: dict[str, Any], payload: bytes) -> None:
        """Handle a report of the node, after which the lease is over."""
        if self._guest.on_report(header):
            self.close_transport()

    def connection_lost(self, error: Exception | None) -> None:
        """Handle the end of the node actor: a living one reports before it closes the connection."""
        self._node_ended = not self._closed.is_set()
        super().connection_lost(error)

    def on_end(self, error: Exception) -> None:
        """End the connection to the guest agent: without the node, nothing limits the sandbox's life."""
        self._closed.set()
        if not self._guest.closed_reason:
            self._guest.lost_error = NodeLost
            self._guest.close(NODE_ENDED)

    def report_guest_end(self) -> None:
        """Report to the node actor that the guest agent ended; a living one answers and ends the lease."""
        # A failed write of the transport would discard a report that has already arrived.
        with contextlib.suppress(EOFError, OSError), self.duplicate_socket() as own:
            own.send(encode({"guest_ended": True}))
        asyncio.get_running_loop().call_later(NODE_ANSWER_S, self.close_transport)

    async def node_ended(self) -> bool:
        """Wait for the end of the lease, and return whether the node actor ended without a report."""
        await self._closed.wait()
        return self._node_ended


async def request_lease(
    endpoint: NodeEndpoint, spec: SandboxSpec, *, timeout_s: float, max_duration_s: float, wait: bool, near: bool
) -> Sandbox | None:
    """Return a leased sandbox; without ``wait``, None if the node has no room.

    ``near`` selects the unix socket. Closing the sandbox's connection ends the lease.

    Raises:
        LeaseTimeout: no sandbox became free within ``timeout_s``.
        NoImage, NoEngine, NotTrusted: no sandbox of this spec can start on the node.
        NodeLost, SandboxLost: the node or the sandbox does not answer.
        OSError: the address cannot be reached.
    """
    loop = asyncio.get_running_loop()
    end = socket.socket(socket.AF_UNIX if near else socket.AF_INET)
    guest: int | None = None
    try:
        end.setblocking(False)
        async with asyncio.timeout(NODE_GRACE_S):
            await loop.sock_connect(end, endpoint.path if near else (endpoint.host, endpoint.port))
        request = {"token": endpoint.token, "spec": spec.model_dump(), "wait": wait}
        request |= {"timeout_s": timeout_s, "max_duration_s": max_duration_s}
        try:
            async with asyncio.timeout(timeout_s + NODE_GRACE_S):
                await loop.sock_sendall(end, encode(request))
                answer, guest = await _receive_answer(end)
        except (TimeoutError, OSError, EOFError, ValueError) as error:
            raise NodeLost(f"leasing: {NODE_ENDED} or does not answer ({error})") from None
        if "name" not in answer:
            end.close()
            if "full" in answer:
                return None
            raise _refusal(answer)
        connection = LeasedConnection(answer["name"])
        connection.ends_at = monotonic() + answer["ends_in_s"]
        connection.lost_error = SandboxLost if near else NodeLost
        if guest is not None:
            connection.lease = LeaseHolder(connection)
            await _attach(connection, socket.socket(fileno=guest))
            guest = None
            await _attach(connection.lease, end)
        else:
            connection.lost_message = NODE_ENDED
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await _attach(connection, end)
        # One that does not answer is replaced by another before the caller sees it.
        await connection.call({"op": "ping"}, timeout_s=NODE_GRACE_S)
        return Sandbox(answer["name"], spec, connection, _do_nothing, answer["digest"], answer["backend"])
    except BaseException:
        end.close()
        if guest is not None:
            os.close(guest)
        raise


def _refusal(answer: dict[str, Any]) -> SandboxError:
    """Return the error of an answer without a lease."""
    kind, text = getattr(errors, str(answer.get("error")), None), str(answer.get("text", answer))
    return kind(text) if isinstance(kind, type) and issubclass(kind, SandboxError) else SandboxError(text)


async def _receive_answer(end: socket.socket) -> tuple[dict[str, Any], int | None]:
    """Return the first frame, and the socket that came with it. Raises OSError, EOFError, ValueError."""
    loop = asyncio.get_running_loop()
    received, descriptor = bytearray(), None
    while True:
        readable: asyncio.Future[None] = loop.create_future()
        loop.add_reader(end, _resolve, readable)
        try:
            await readable
        finally:
            loop.remove_reader(end)
        data, passed, _, _ = socket.recv_fds(end, ANSWER_BYTES, 1)
        descriptor = passed[0] if passed else descriptor
        received += data
        for header, _ in take_frames(received, ANSWER_BYTES, 0):
            return header, descriptor
        if not data:
            raise EOFError("the connection was closed")


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def _attach(protocol: FrameProtocol, end: socket.socket) -> None:
    end.setblocking(False)
    loop = asyncio.get_running_loop()
    if end.family == socket.AF_UNIX:
        await loop.create_unix_connection(lambda: protocol, sock=end)
    else:
        await loop.create_connection(lambda: protocol, sock=end)


async def _do_nothing() -> None:
    """Close a leased sandbox: its node does the work when the connection closes."""
