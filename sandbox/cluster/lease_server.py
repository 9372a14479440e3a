"""Node end of leases: one connection is one lease.

A worker connects to a unix socket (same node) or to a TCP port with a token (another node), requests a lease in the
first frame, and holds it for as long as it holds the connection. On the same node, the answer carries the socket of the
guest agent, so that the worker needs no relay; otherwise this process forwards the frames. A worker that sends
``released`` returns a sandbox in a known state, which is reset; after any other end the sandbox is replaced.
"""

import asyncio
import hmac
import logging
import secrets
import shutil
import socket
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, cast

from ...base.logs import log_errors
from ..errors import SandboxBroken, SandboxError
from ..guest.frames import encode
from ..pool import Pool
from ..sandbox import Sandbox
from ..spec import SandboxSpec
from ..transport.connection import GuestConnection
from ..transport.frame_protocol import HEADER_MAX_BYTES, PAYLOAD_MAX_BYTES, FrameProtocol

LOG = logging.getLogger(__name__)

REQUEST_MAX_BYTES = 64 << 10
REQUEST_TIMEOUT_S = 10.0
"""Time for a connection to send its request, after which it is closed."""
MAX_CONNECTIONS = 4096
"""Connections with and without a lease; further ones are closed."""


@dataclass(frozen=True, slots=True)
class NodeEndpoint:
    """Address of a ``LeaseServer``."""

    path: str
    """Unix socket; empty if this process cannot listen on one."""
    host: str
    port: int
    """TCP port of ``host``; 0 unless it was requested."""
    token: str = field(repr=False)
    """Admits every process that has it, so that no text contains it."""


class LeaseServer:
    """Leases the sandboxes of a pool, in one event loop."""

    def __init__(self, pool: Pool, host: str = "127.0.0.1") -> None:
        """``host`` is the address of this node that other nodes reach; used only if they request a lease."""
        self.pool = pool
        self.token = secrets.token_hex(32)
        self._host = host
        self._servers: list[asyncio.Server] = []
        self._port = 0
        self._folder = Path(tempfile.mkdtemp(prefix="tw-node-"))
        self._path = self._folder / "socket"
        self._tcp_lock = asyncio.Lock()
        self.workers: set[WorkerConnection] = set()

    async def open(self) -> "LeaseServer":
        """Listen on the unix socket, if the path of the temporary folder is short enough for one."""
        loop = asyncio.get_running_loop()
        with log_errors(LOG, "this node has no unix socket for leases; its workers use TCP"):
            self._servers.append(await loop.create_unix_server(self._make(True), self._path))
        return self

    async def endpoint(self, *, tcp: bool) -> NodeEndpoint:
        """Return the address, after starting to listen on TCP if requested. Raises OSError."""
        async with self._tcp_lock:
            if tcp and not self._port:
                server = await asyncio.get_running_loop().create_server(self._make(False), self._host, 0)
                self._servers.append(server)
                self._port = server.sockets[0].getsockname()[1]
        return NodeEndpoint(str(self._path) if self._path.exists() else "", self._host, self._port, self.token)

    def close(self) -> None:
        """Stop listening and end every lease."""
        for server in self._servers:
            server.close()
        for worker in list(self.workers):
            worker.end("the node actor was closed")
        shutil.rmtree(self._folder, ignore_errors=True)

    def _make(self, near: bool) -> "Callable[[], WorkerConnection]":
        return lambda: WorkerConnection(self, near)


class WorkerConnection(FrameProtocol):
    """The connection of one worker."""

    header_max_bytes, payload_max_bytes = REQUEST_MAX_BYTES, 0

    def __init__(self, server: LeaseServer, near: bool) -> None:
        """``near``: the worker is on the same machine, so that it can receive a socket."""
        super().__init__()
        self._server = server
        self._near = near
        self._leasing: asyncio.Task[None] | None = None
        self._sandbox: Sandbox | None = None
        self._ending: asyncio.Task[None] | None = None
        server.workers.add(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the request."""
        super().connection_made(transport)
        asyncio.get_running_loop().call_later(REQUEST_TIMEOUT_S, self._check_requested)
        if len(self._server.workers) > MAX_CONNECTIONS:
            self.close_transport()

    def on_frame(self, header: dict[str, Any], payload: bytes) -> None:
        """Handle the request, the release, or a frame to forward. Raises ValueError."""
        if self._leasing is None:
            if not hmac.compare_digest(str(header.pop("token")).encode(), self._server.token.encode()):
                raise ValueError("a lease was requested with a wrong token")
            self._leasing = asyncio.get_running_loop().create_task(self._lease(header))
        elif self._sandbox is None:
            raise ValueError("a frame before the lease")
        elif "released" in header:
            self._finish(clean=True)
            self.close_transport()
        elif "guest_ended" in header:
            self._on_guest_end(self._guest().lost_message)
        elif self._near:
            raise ValueError("a request on the connection of a lease")
        else:
            connection = self._guest()
            try:
                connection.write(header, payload)
            except EOFError:
                self.end(connection.closed_reason)

    def on_end(self, error: Exception) -> None:
        """Replace the sandbox, unless it was released."""
        self._server.workers.discard(self)
        if self._leasing is not None:
            self._leasing.cancel()
        self._finish(clean=False)

    def end(self, reason: str) -> None:
        """End the lease and report the reason to the worker."""
        self._report("lease_over", reason)
        self.close_transport()

    def _check_requested(self) -> None:
        if self._leasing is None:
            self.close_transport()

    async def _lease(self, request: dict[str, Any]) -> None:
        pool = self._server.pool
        spec = SandboxSpec.model_validate(request.pop("spec"))
        if not request.pop("wait") and spec.memory_mib <= pool.memory_mib and not pool.has_room(spec):
            self.write({"full": True})
            return self.close_transport()
        try:
            self._sandbox = await pool.lease(spec, **request)
        except SandboxError as error:
            self.write({"error": type(error).__name__, "text": str(error)})
            return self.close_transport()
        connection = self._guest()
        connection.on_lent_end = self._on_guest_end
        ends_in_s = self._sandbox.expires_at - monotonic()
        facts = {"name": self._sandbox.id, "digest": self._sandbox.digest, "backend": self._sandbox.backend}
        answer = {**facts, "ends_in_s": ends_in_s}
        if self._near:
            with connection.lend_socket() as guest, self.duplicate_socket() as own:
                socket.send_fds(own, [encode(answer)], [guest.fileno()])
            return None
        self.header_max_bytes, self.payload_max_bytes = HEADER_MAX_BYTES, PAYLOAD_MAX_BYTES
        connection.lend_frames(self)
        self.write(answer)
        return None

    def _guest(self) -> GuestConnection:
        return cast(Sandbox, self._sandbox).connection

    def _on_guest_end(self, reason: str) -> None:
        self._ending = self._ending or asyncio.get_running_loop().create_task(self._report_end(reason))

    async def _report_end(self, reason: str) -> None:
        connection = self._guest()
        connection.closed_reason = connection.closed_reason or reason
        await connection.find_cause()
        broken = connection.lost_error is SandboxBroken
        self._report("sandbox_broken" if broken else "sandbox_lost", connection.closed_reason)
        self.close_transport()

    def _report(self, key: str, reason: str) -> None:
        if not self._ended and self._sandbox is not None:
            self.write({key: reason})

    def _finish(self, *, clean: bool) -> None:
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is None:
            return
        connection = sandbox.connection
        connection.take_back()
        if not clean:
            connection.close("its worker ended during the lease")
        self._server.pool.release(sandbox)
