"""Same-node path from a worker to a leased sandbox: the node actor forwards frames between two unix sockets.

One connection is one lease: when the worker closes it or dies, the lease ends. The first frame names the lease. Each
further frame is a request for the guest agent, plus the key ``call_timeout_s`` for the node actor. An answer with the
key ``sandbox_lost`` or ``lease_over`` contains the text of an error instead.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from ..errors import NodeLost, SandboxError, SandboxLost
from ..sandbox import Sandbox
from ..transport.connection import STREAM_LIMIT_BYTES, GuestConnection

T = TypeVar("T")
NODE_GRACE_S = 10.0
"""Time after the timeout of a request when a node actor that has not answered counts as lost."""


class NodeSocket:
    """Server end: a socket of a node actor for the workers of its node, in one event loop."""

    def __init__(self, claim: Callable[[str], Sandbox], end: Callable[[str], None]) -> None:
        """``claim`` returns the sandbox of a lease or raises NodeLost; ``end`` ends a lease."""
        self._claim = claim
        self._end = end
        self._server: asyncio.AbstractServer | None = None
        self._folder = Path(tempfile.mkdtemp(prefix="tw-node-"))
        self.path = self._folder / "socket"

    async def open(self) -> "NodeSocket":
        """Start to listen.

        Raises:
            OSError: listening failed, for example because the path is too long for a socket.
        """
        try:
            self._server = await asyncio.start_unix_server(self._serve, self.path, limit=STREAM_LIMIT_BYTES)
        except OSError:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        worker = GuestConnection("worker", reader, writer)
        lease = ""
        try:
            lease = str((await worker.receive())[0]["lease"])
            self._claim(lease)
            while True:
                header, payload = await worker.receive()
                try:
                    timeout_s = header.pop("call_timeout_s")
                    call = self._claim(lease).connection.call(header, payload, timeout_s=timeout_s)
                    answer = await unless_disconnected(call, reader)
                except NodeLost as error:
                    answer = {"lease_over": str(error)}, b""
                except SandboxError as error:
                    answer = {"sandbox_lost": str(error)}, b""
                await worker.send(*answer)
        except (OSError, EOFError, ValueError, LookupError, NodeLost):
            pass
        finally:
            worker.close()
            self._end(lease)


async def unless_disconnected(call: Coroutine[Any, Any, T], reader: asyncio.StreamReader) -> T:
    """Return the result of ``call``; cancel it, which ends the sandbox, if the worker disconnects first.

    Raises:
        EOFError: the worker disconnected.
    """
    calling = asyncio.ensure_future(call)
    # A worker sends nothing before it has the answer, so anything readable is the end of the stream.
    ending = asyncio.ensure_future(reader.read(1))
    try:
        await asyncio.wait((calling, ending), return_when=asyncio.FIRST_COMPLETED)
        if calling.done():
            return calling.result()
        raise EOFError
    finally:
        for task in (calling, ending):
            task.cancel()
        await asyncio.gather(calling, ending, return_exceptions=True)


class SocketConnection(GuestConnection):
    """Worker end: the connection that holds one lease."""

    lost_error = NodeLost
    lost_message = "the node actor of the sandbox ended"

    async def open(self, lease: str) -> None:
        """Claim the lease. Raises NodeLost, SandboxLost, OSError."""
        await self.send({"lease": lease})
        await self.call({"op": "ping"}, timeout_s=NODE_GRACE_S)

    async def call(self, header: dict[str, Any], payload: bytes = b"", *, timeout_s: float) -> tuple[Any, bytes]:
        """Send a request and return its answer.

        Raises:
            SandboxLost: the sandbox ended or did not answer.
            NodeLost: the lease is over, or the node actor ended or did not answer.
        """
        header = {**header, "call_timeout_s": timeout_s}
        answer, data = await super().call(header, payload, timeout_s=timeout_s + NODE_GRACE_S)
        for key, error in (("sandbox_lost", SandboxLost), ("lease_over", NodeLost)):
            if key in answer:
                self.close(answer[key])
                raise error(answer[key])
        return answer, data
